"""The training set of join() and its options of a DataLoader: which ones a job can have."""

from __future__ import annotations

import array
import contextlib
import difflib
import hashlib
from collections.abc import Iterable
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, Subset

from .errors import PacelineError
from .streams import Stream

DATALOADER_OPTIONS = (
    "num_workers",
    "prefetch_factor",
    "pin_memory",
    "pin_memory_device",
    "persistent_workers",
    "worker_init_fn",
    "generator",
    "timeout",
    "multiprocessing_context",
)

# A DataLoader without processes refuses them too.
_OF_LOADER_PROCESSES = ("prefetch_factor", "persistent_workers", "timeout", "multiprocessing_context")

# Why, and what to do instead.
_LEASED = "Paceline leases the samples, so that each is trained on exactly once an epoch"
_REFUSED = {
    "sampler": (
        _LEASED,
        "leave sampler= out; if it draws some samples more often, weight their losses, or name them several times in "
        "Subset(train_set, indices)",
    ),
    "batch_sampler": (_LEASED, "leave batch_sampler= out, and give batch_size="),
    "shuffle": (
        "Paceline shuffles each epoch by the job's seed",
        "leave shuffle= out; if the samples' order is to stay, give join() a paceline.streams.Stream with shuffle=0",
    ),
}


def _takes_each_once(loader: Any) -> bool:
    """Whether the loader has no sampler that chooses samples."""
    if loader.batch_sampler is not None and type(loader.batch_sampler) is not BatchSampler:
        return False
    sampler = sampler_of(loader)
    plain = ("RandomSampler", "SequentialSampler", "DistributedSampler", "_InfiniteConstantSampler")
    if type(sampler).__name__ not in plain or getattr(sampler, "replacement", False):
        return False
    return getattr(sampler, "_num_samples", None) is None  # a RandomSampler may draw some of them


def sampler_of(loader: Any) -> Any:
    """The sampler that a DataLoader takes its samples by."""
    return getattr(loader.batch_sampler, "sampler", loader.sampler)


def leaves_out(sampler: Any, samples: Any) -> bool:
    """Whether it takes some of these samples only, as a SubsetRandomSampler: those of its `indices`."""
    with contextlib.suppress(Exception):  # a data set or a sampler of any kind
        return len(set(map(int, sampler.indices))) < len(samples)
    return False


def check_train_set(train_set: Any) -> int:
    """The number of samples; of a stream, that of an epoch."""
    if isinstance(train_set, Stream):
        return train_set.epoch_records
    if isinstance(train_set, DataLoader):
        sampler = sampler_of(train_set)
        if leaves_out(sampler, train_set.dataset):
            raise PacelineError(
                f"join() wants the data set and not a DataLoader, and this one's {type(sampler).__name__} leaves "
                "samples out; give it torch.utils.data.Subset(dataset, sampler.indices), and what the loader was "
                "told: batch_size=, collate_fn=, num_workers="
            )
        raise PacelineError(
            "join() wants the data set and not a DataLoader; give it loader.dataset, and what the loader was told: "
            "batch_size=, collate_fn=, num_workers="
            + ("" if _takes_each_once(train_set) else ". Its sampler has no place in a job: " + _LEASED)
        )
    iterable = isinstance(train_set, torch.utils.data.IterableDataset)
    if iterable and type(train_set).__module__.startswith("datasets."):
        raise PacelineError(
            "join() was given a streaming data set of Hugging Face; write Stream(HuggingFace(dataset)), both of "
            "paceline.streams"
        )
    if iterable or not hasattr(train_set, "__getitem__"):
        raise PacelineError(
            f"{type(train_set).__name__} has no samples by number, and Paceline leases samples by their numbers; "
            "give join() a paceline.streams.Stream over its files, or a map-style data set, with __getitem__ and "
            "__len__"
        )
    if isinstance(train_set, tuple) and all(isinstance(part, torch.Tensor) for part in train_set):
        raise PacelineError("join() wants one data set and not a tuple of tensors; give it TensorDataset(x, y)")
    if isinstance(train_set, (str, bytes)):
        raise PacelineError(f"join() wants a data set and not the text {train_set!r:.60}; make a data set of it")
    try:
        samples = len(train_set)
    except TypeError:
        raise PacelineError(f"{type(train_set).__name__} has no length; give it __len__") from None
    if not 1 <= samples < 2**31:
        raise PacelineError(
            f"the training set has {samples} samples; it needs 1 to {2**31 - 1}; give join() another one"
        )
    return samples


def digest_of(train_set: Any) -> str | None:
    """A text that is the same in all processes with the same data, as far as the data set itself says which."""
    if isinstance(train_set, Stream):
        return train_set.digest()
    return _indices_of(train_set) if type(train_set) is Subset else None


def _indices_of(subset: Any) -> str | None:
    """A random split is another one in each process if the program draws it before it imports this package."""
    hashed, first = hashlib.blake2b(digest_size=8), ""
    with contextlib.suppress(TypeError, ValueError, OverflowError):  # indices are whatever the data set takes
        while type(subset) is Subset:
            indices = array.array("q", getattr(subset.indices, "tolist", lambda found=subset.indices: found)())
            first = first or ", ".join(str(index) for index in indices[:4])
            hashed.update(indices.tobytes())
            subset = subset.dataset
        return f"samples {first}, ... of a Subset, {hashed.hexdigest()}"
    return None


def _instead(name: str, known: Iterable[str]) -> str:
    """Returns the way out for an argument that join() does not know."""
    named = [one for one in [*known, *DATALOADER_OPTIONS] if not one.startswith("_")]
    meant = difflib.get_close_matches(name, named, 1)
    return f"did you mean {meant[0]}=?" if meant else "help(paceline.join) has them all"


def check_options(options: dict[str, Any], known: Iterable[str], train_set: Any = ()) -> dict[str, Any]:
    """Returns the options of join() that are a DataLoader's, checked. `known`: the names of its own arguments."""
    for name, (why, instead) in _REFUSED.items():
        if options.get(name) is not None and (name == "shuffle" or options[name] is not False):
            chosen = options[name] if name == "sampler" else getattr(options[name], "sampler", None)
            if leaves_out(chosen, train_set):
                kind = type(chosen).__name__
                raise PacelineError(
                    f"join() takes no {name}: {why}, and this {kind} leaves samples out; leave {name}= out, and give "
                    "join() torch.utils.data.Subset(train_set, sampler.indices)"
                )
            raise PacelineError(f"join() takes no {name}: {why}; {instead}")
    taken = {name: value for name, value in options.items() if name not in _REFUSED}
    for name in taken:
        if name not in DATALOADER_OPTIONS:
            raise PacelineError(f"join() takes no argument {name!r}; {_instead(name, known)}")
    workers = taken.get("num_workers") or 0
    if not isinstance(workers, int) or workers < 0:
        raise PacelineError(f"num_workers = {workers!r} is not a number of processes; write 0 or more")
    for name in _OF_LOADER_PROCESSES:
        if taken.get(name) and not workers:
            raise PacelineError(f"{name} is for loader processes; give num_workers= too, or leave it out")
    return {name: value for name, value in taken.items() if value is not None}


def prefetched(options: dict[str, Any]) -> int:
    """How many batches are read ahead."""
    return int(options.get("num_workers", 0)) * int(options.get("prefetch_factor") or 2)
