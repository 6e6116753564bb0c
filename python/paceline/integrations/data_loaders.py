"""The settings of a DataLoader, for a job that replaces it."""

from __future__ import annotations

from typing import Any

from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler

from ..errors import PacelineError
from ..streams import Stream
from ..train_sets import check_train_set, leaves_out

# The settings that a job's own loader takes over.
_PROCESSES = (
    "num_workers",
    "prefetch_factor",
    "pin_memory",
    "persistent_workers",
    "worker_init_fn",
    "timeout",
    "multiprocessing_context",
)

# Their classes of loaders give the batches of a DataLoader. A class of another module is the person's own.
_LIBRARIES = ("torch.", "accelerate.", "lightning.", "torchdata.", "torch_geometric.", "monai.", "paceline.")


def wishes_of(loader: Any) -> dict[str, Any]:
    """The arguments of join() that are this loader's."""
    if not isinstance(loader, DataLoader):
        raise PacelineError(
            f"the training data are a {type(loader).__name__}; Paceline leases samples by their numbers and needs "
            "one DataLoader over a map-style data set or a paceline.streams.Stream"
        )
    for one in type(loader).__mro__:
        if "__iter__" in one.__dict__ and not one.__module__.startswith(_LIBRARIES):
            raise PacelineError(
                f"the training DataLoader is a {type(loader).__name__} with an __iter__() of its own, and a job "
                "takes the data set out of it; do that work in collate_fn= or in the data set, and give a DataLoader"
            )
    samples = check_train_set(loader.dataset)
    batches = loader.batch_sampler
    if type(batches) is not BatchSampler:
        raise PacelineError(
            "the training DataLoader makes its batches in a way of its own; give it batch_size instead"
        )
    sampler: Any = batches.sampler
    if leaves_out(sampler, loader.dataset):
        raise PacelineError(
            f"the training DataLoader has a {type(sampler).__name__}, which leaves samples out, and Paceline leases "
            "all of the data set; give the DataLoader torch.utils.data.Subset(dataset, sampler.indices), with "
            "shuffle=True in place of sampler="
        )
    plain = isinstance(sampler, SequentialSampler) or (isinstance(sampler, RandomSampler) and not sampler.replacement)
    if not plain or (not isinstance(loader.dataset, Stream) and len(sampler) != samples):
        raise PacelineError(
            f"the training DataLoader has a {type(sampler).__name__}; Paceline leases the samples, so that each is "
            "trained on exactly once an epoch: leave sampler= out"
        )
    names = _PROCESSES if loader.num_workers else ("pin_memory",)
    wishes = {name: getattr(loader, name) for name in names}
    drops = bool(batches.drop_last and samples % batches.batch_size)
    return {"batch_size": batches.batch_size, "collate_fn": loader.collate_fn, "drop_last": drops, **wishes}
