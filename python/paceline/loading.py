"""Batches of the training set, as Paceline leases them.

Without loader processes a batch is read when its step comes. With them, torch's DataLoader reads expected batches
ahead: its sampler is a queue that the messages fill.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import pickle
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Callable, NamedTuple

import torch
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset, default_collate
from torch.utils.data._utils.pin_memory import pin_memory

from .allocator import keep_freed_memory
from .autocast import without_autocast
from .data_set_changes import DataSetChanges
from .epochs import those_with_set_epoch
from .errors import PacelineError, name_sample
from .failures import Failure, failure_of
from .loader_deaths import LoaderDeaths
from .seeding import seed_sample
from .sent_batches import AsBytes, collating_into_own_memory, to_send, widen
from .streams import Stream
from .streams.host_source import leave_readers
from .streams.learnt import Learnt, Length
from .streams.leased import Leased
from .streams.with_readers import with_readers

Collate = Callable[[list[Any]], Any]
_MOST_OF_A_NAME = 200  # characters, so that many fit in a message


@dataclass(frozen=True)
class Load:
    samples: tuple[int, ...]
    augment_seed: int
    epoch: int = 0


class Drawn(NamedTuple):
    """A batch of a stream."""

    batch: Any  # None without samples
    samples: int
    varies: bool  # a batch may have fewer samples than were leased, so each counts as much as it has
    data_end: int | None  # the number of samples of the whole run, if the batch reached or passed their end
    lengths: list[Length]  # lengths of shards that this process has learnt since the last batch


class Loads(Dataset):  # type: ignore[type-arg]
    """The training set by whole batches; a loader process reads one batch at a time."""

    def __init__(self, train_set: Any, collate_fn: Collate | None) -> None:
        self.train_set = train_set
        self._collate = collate_fn or default_collate
        self._draws = not _draws_nothing(train_set)
        # A function of the program's own may draw, for a whole batch. It goes on where the last sample has stopped.
        self._collate_alone_draws = not self._draws and collate_fn is not None
        self._epoch: int | None = None  # the epoch that set_epoch() was called with last
        self._count = _count_of(train_set)
        self.sent_as_bytes = False  # the last batch, from a loader process

    def enter(self, load: Load) -> bool:
        """Tells data set, transforms and collate_fn the epoch of the batch. Returns whether one wants to know it."""
        if load.epoch == self._epoch:
            return False
        told = those_with_set_epoch((self.train_set, self._collate))
        if told:
            seed_sample(load.augment_seed, -1)  # the same in all processes
        for one in told:
            one.set_epoch(load.epoch)
        self._epoch = load.epoch
        if (now := _count_of(self.train_set)) != self._count:  # another epoch of a DataLoader would have all of them
            raise PacelineError(
                f"the training set had {self._count} samples at join() and has {now} now, and the job leases those "
                "of join(); begin a second job with all that there are now, and with this one's exported weights "
                "(--set model.weights=FILE)"
            )
        return bool(told)

    def __getitem__(self, load: Load) -> Any:
        self.enter(load)
        samples = []
        for index in load.samples:
            if self._draws:
                seed_sample(load.augment_seed, index)
            try:
                samples.append(self.train_set[index])
            except Exception as error:
                name_sample(error, functools.partial("sample {} of the training set".format, index))
                raise
        if self._collate_alone_draws:
            seed_sample(load.augment_seed, load.samples[-1])
        return self._collated(samples)

    def arrived(self, batch: Any) -> None:
        """Hears of each batch that has come to the program's own process, even if nobody needs it any more."""

    def lengths(self) -> dict[str, Any]:
        """Returns the key `lengths` of the next message about a step, if there is anything to say."""
        return {}

    def close(self) -> None:
        """There are no more batches."""

    def _collated(self, samples: list[Any]) -> Any:
        if self.sent_as_bytes and self._collate is default_collate:
            with collating_into_own_memory():
                return self._collate(samples)
        return self._collate(samples)


class StreamLoads(Loads):
    """A stream by whole batches. The samples of a load are places in the stream's order, which ascend."""

    def __init__(
        self,
        train_set: Any,
        collate_fn: Collate | None,
        seed: int,
        epochs: float,
        host: str,
        readers: int,
        whole: bool = False,
    ) -> None:
        """host: a text that the workers of this job on this host share, and nobody else; empty: there is none.

        readers: how many processes read a source for all of them, if its shards can be read forward only.
        whole: no batch may have fewer samples than places.
        """
        super().__init__(train_set, collate_fn)
        self._whole = whole
        # The program has the stream itself, and may set its functions later.
        self._read = with_readers(train_set, host, readers) if host else train_set
        self._read.host = host
        self._leased = Leased(self._read, seed, epochs, train_set)
        self._learnt = Learnt()

    def __getitem__(self, load: Load) -> Drawn:
        self.enter(load)
        stream = self.train_set
        if self._whole and stream.varies:
            raise PacelineError(
                "the program has set keep or pack of its stream since join(), and the processes or stages of a "
                "worker compute whole batches; leave both out"
            )
        before = functools.partial(seed_sample, load.augment_seed) if stream.draws else None
        samples, data_end = self._leased.draw(load.epoch, load.samples, before)
        if before is None and self._collate is not default_collate:
            seed_sample(load.augment_seed, load.samples[-1])
        batch = self._collated(samples) if samples else None
        return Drawn(batch, len(samples), stream.varies, data_end, self._read.learnt())

    def arrived(self, batch: Any) -> None:
        self._learnt.add(batch.lengths)

    def lengths(self) -> dict[str, Any]:
        names = self.train_set.name_of
        lengths = [(shard, records, names(shard)[-_MOST_OF_A_NAME:]) for shard, records in self._learnt.take()]
        return {"lengths": lengths} if lengths else {}

    def close(self) -> None:
        leave_readers()


def _count_of(train_set: Any) -> int:
    return len(train_set) if hasattr(type(train_set), "__len__") and not isinstance(train_set, Stream) else 0


def _draws_nothing(train_set: Any) -> bool:
    """Whether reading a sample is known to need no random numbers, and so no seed."""
    while type(train_set) is Subset:
        train_set = train_set.dataset
    return type(train_set) is TensorDataset


class DirectLoader:
    """Reads in this process. `pins`: each batch goes to pinned memory, if the process computes on a GPU."""

    def __init__(self, loads: Loads, pins: bool = False) -> None:
        self._loads = loads
        self._pins = pins

    def expect(self, expected: Sequence[Load]) -> None:
        pass

    def get(self, load: Load) -> Any:
        # job.step() reads the next batch, perhaps within autocast. The loop of plain PyTorch reads it outside.
        with without_autocast():
            batch = self._loads[load]
        self._loads.arrived(batch)
        # A process that computes on the CPU makes no context of a GPU.
        if self._pins and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            return pin_memory(batch)  # type: ignore[no-untyped-call]
        return batch

    def lengths(self) -> dict[str, Any]:
        return self._loads.lengths()

    def check(self) -> None:
        pass

    def close(self) -> None:
        self._loads.close()


class _InLoaderProcess(Exception):
    """The traceback of an exception in another process, as the cause of the same one in this process."""

    def __str__(self) -> str:
        return f"in a loader process:\n{self.args[0]}"


@dataclass
class _Failed:
    failure: Failure
    error: bytes | None  # pickled
    trace: str

    def raise_here(self) -> None:
        error: BaseException = RuntimeError(self.failure.text)
        if self.error is not None:
            with contextlib.suppress(Exception):
                error = pickle.loads(self.error)
        error.paceline_failure = self.failure  # type: ignore[attr-defined]
        raise error from _InLoaderProcess(self.trace)


class _Caught(Dataset):  # type: ignore[type-arg]
    """Loads whose failures come back as values: a failed batch that is no longer needed must not end the program.

    A loader process finds this as get_worker_info().dataset. There the program looks for its own training set, reads
    what that has, and sets what that is to have, in worker_init_fn, say.
    """

    _loads: Loads

    def __init__(self, loads: Loads) -> None:
        self.__dict__["_loads"] = loads

    def __len__(self) -> int:
        return len(self._loads.train_set)

    def __getattr__(self, name: str) -> Any:
        # Python and torch look for special names in this object itself. It has no data set yet while it is unpickled.
        if name.startswith("__") or "_loads" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._loads.train_set, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._loads.train_set, name, value)

    def __getitem__(self, load: Load) -> Any:
        keep_freed_memory()  # a decoded image is a large block
        try:
            batch = to_send(self._loads[load])
            self._loads.sent_as_bytes = isinstance(batch, AsBytes)
            return batch
        except Exception as error:
            try:
                pickled: bytes | None = pickle.dumps(error)
            except Exception:
                pickled = None
            return _Failed(failure_of(error), pickled, traceback.format_exc())


class _Feed:
    """A sampler that says what to read next, and may have nothing for a while."""

    def __init__(self) -> None:
        self.waiting: deque[Load] = deque()
        self.under_way: deque[Load] = deque()

    def __iter__(self) -> Iterator[Load]:
        return self

    def __next__(self) -> Load:
        if not self.waiting:
            raise StopIteration
        load = self.waiting.popleft()
        self.under_way.append(load)
        return load


def _as_it_is(batch: Any) -> Any:
    return batch


class AheadLoader:
    """Reads ahead in loader processes."""

    def __init__(self, loads: Loads, options: dict[str, Any]) -> None:
        self._loads = loads
        self._feed = _Feed()
        self._ready: dict[Load, Any] = {}
        self._wanted: set[Load] = set()
        self._room = int(options["num_workers"]) * int(options.get("prefetch_factor") or 2)
        # Python 3.14 starts them in another way by itself, which imports the program once more. A program that has
        # asked for "spawn" keeps it.
        if multiprocessing.get_start_method(allow_none=True) != "spawn":
            options = {"multiprocessing_context": "fork", **options}
        context: Any = options.get("multiprocessing_context", "spawn")
        self._method = context if isinstance(context, str) else context.get_start_method()
        self._arrived = False  # anything
        loader: Any = DataLoader(_Caught(loads), batch_size=None, sampler=self._feed, collate_fn=_as_it_is, **options)
        # Processes start here, while this one has no threads yet and has mapped nothing.
        self._batches: Any = iter(loader)
        widen(self._batches)
        self._deaths = LoaderDeaths(self._batches)
        self._changes: DataSetChanges | None = DataSetChanges(loads.train_set, loads._collate)
        self._persistent = bool(options.get("persistent_workers"))

    def expect(self, expected: Sequence[Load]) -> None:
        wanted = set(expected)
        self._ready = {load: batch for load, batch in self._ready.items() if load in wanted}
        here = set(self._ready) | set(self._feed.under_way)
        self._feed.waiting = deque(load for load in dict.fromkeys(expected) if load not in here)
        self._wanted = wanted
        self._fill()

    def get(self, load: Load) -> Any:
        self._enter(load)
        if load not in self._ready and load not in self._feed.under_way:
            if load in self._feed.waiting:
                self._feed.waiting.remove(load)
            self._feed.waiting.appendleft(load)
        while load not in self._ready:
            self._fill()
            batch = self._next()
            if not isinstance(batch, _Failed):
                self._loads.arrived(batch)
            arrived = self._feed.under_way.popleft()  # batches come in the order of their loads
            if arrived == load or arrived in self._wanted:
                self._ready[arrived] = batch
        batch = self._ready.pop(load)
        self._fill()
        if isinstance(batch, _Failed):
            batch.raise_here()
        return batch

    def _enter(self, load: Load) -> None:
        """Tells the epoch here too, for a loop that looks at its data set, and checks what the program has set there.

        Persistent processes of plain PyTorch begin at the first epoch, and do not see later changes either.
        """
        if self._changes is not None:
            self._changes.check()
        if self._loads.enter(load) and self._changes is not None:
            self._changes.note()
        if self._persistent:
            self._changes = None

    def lengths(self) -> dict[str, Any]:
        return self._loads.lengths()

    def check(self) -> None:
        """Raises a PacelineError if a loader process has died."""
        self._deaths.check()

    def close(self) -> None:
        self._deaths.close()
        self._batches = None  # ends the processes
        self._loads.close()

    def _next(self) -> Any:
        try:
            batch = next(self._batches)
        except Exception:
            self._say_who_ended()
            raise
        self._arrived = True
        return batch.batch() if isinstance(batch, AsBytes) else batch

    def _say_who_ended(self) -> None:
        try:
            self._deaths.check()
        except PacelineError as error:
            if self._arrived or self._method == "fork":
                raise
            raise PacelineError(
                f"a loader process ended as it began; by the method {self._method!r} it imports the program, so put "
                'the program\'s own lines under `if __name__ == "__main__":`'
            ) from error

    def _fill(self) -> None:
        while self._feed.waiting and len(self._feed.under_way) < self._room:
            # next() draws from the sampler only for what it has just given out.
            self._batches._try_put_index()


def make_loader(
    train_set: Any,
    collate_fn: Collate | None,
    options: dict[str, Any],
    seed: int = 0,
    epochs: float = 1,
    host: str = "",
    whole: bool = False,
) -> Any:
    if isinstance(train_set, Stream):
        readers = max(1, options.get("num_workers", 0))
        loads: Loads = StreamLoads(train_set, collate_fn, seed, epochs, host, readers, whole)
    else:
        loads = Loads(train_set, collate_fn)
    if options.get("num_workers", 0) == 0:
        return DirectLoader(loads, bool(options.get("pin_memory")))
    return AheadLoader(loads, options)
