"""Hugging Face's IterableDataset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..errors import PacelineError, kind_of
from .forward import Forward
from .saved_states import version_of


class HuggingFace(Forward):
    """The shards of a datasets.IterableDataset, with what map(), filter() and the like make of them.

    The data set's state is saved every 1000 records: a record that was passed by is read again from the nearest one.
    """

    says_length = "lengths="

    def __init__(self, dataset: Any, lengths: Sequence[int] | None = None, *, window: int = 8192) -> None:
        """lengths: the records of each shard, if you know them; an IterableDataset does not.

        window: how many of the newest records are kept in memory. It has to be at least twice the stream's `shuffle`.
        """
        _check(dataset)
        self._dataset = dataset
        self._shards = int(dataset.num_shards)
        super().__init__([f"{shard} of the IterableDataset" for shard in range(self._shards)], window)
        if lengths is not None and len(lengths) != self._shards:
            raise PacelineError(
                f"lengths= has {len(lengths)} numbers, and the data set {self._shards} shards; give one for each"
            )
        self.sized = lengths is not None
        self._known = list(lengths or ())

    def length(self, shard: int) -> int:
        return self._known[shard]

    def _begin(self, shard: int, record: int) -> tuple[Iterator[Any], int]:
        def opened() -> Any:
            return self._dataset.shard(self._shards, shard)

        return self._saved(shard).reading(record, opened(), opened)

    def _identity(self, shard: int) -> str:
        return version_of(type(self._dataset))


def _check(dataset: Any) -> None:
    if not all(hasattr(dataset, name) for name in ("num_shards", "shard", "state_dict", "load_state_dict")):
        raise PacelineError(
            f"HuggingFace(…) wants a datasets.IterableDataset with state_dict() and not {kind_of(dataset)}; give "
            "load_dataset(…, streaming=True), or a Dataset to join() as it is"
        )
    if getattr(dataset, "_distributed", None) is not None:
        raise PacelineError(
            "the IterableDataset went through split_dataset_by_node(), and Paceline itself gives each record to one "
            "worker; give the data set before that"
        )
    if any("BufferShuffled" in type(one).__name__ for one in _sources(getattr(dataset, "_ex_iterable", None))):
        raise PacelineError(
            "the IterableDataset went through shuffle(), whose buffer is lost at a resume; give the data set before "
            "that, and write Stream(…, shuffle=4096)"
        )
    counted = (_counts_over_shards(one) for one in _sources(getattr(dataset, "_ex_iterable", None)))
    if dataset.num_shards > 1 and (name := next(filter(None, counted), None)):
        raise PacelineError(
            f"the IterableDataset went through {name}, which counts over shards, and the shards are read by "
            'themselves; write Shards(["all"], lambda name: dataset.repeat(1)), which reads them as one'
        )


def _counts_over_shards(one: Any) -> str:
    """Returns what the person wrote, if the shards alone would give other records than all in turn; otherwise ""."""
    kind = type(one).__name__
    if one is None or one.num_shards <= 1:
        return ""
    if kind.startswith("Take"):
        return "take()"
    if kind.startswith("Skip"):
        return "skip()"
    if getattr(one, "with_indices", False):
        return "filter(…, with_indices=True)" if kind.startswith("Filter") else "map(…, with_indices=True)"
    if getattr(one, "drop_last_batch", False):
        return "drop_last_batch=True"
    if getattr(one, "stopping_strategy", "").endswith("_exhausted"):  # not all_exhausted_without_replacement
        return f"interleave_datasets(…, stopping_strategy={one.stopping_strategy!r})"
    return ""


def _sources(iterable: Any) -> Iterator[Any]:
    """The chain of what a data set reads from."""
    waiting = [iterable]
    while waiting:
        one = waiting.pop()
        if one is not None:
            yield one
            waiting += [getattr(one, "ex_iterable", None), *getattr(one, "ex_iterables", ())]
