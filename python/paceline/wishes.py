"""The arguments of join()."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, field
from typing import Any, Callable

from .errors import PacelineError


class _AsTheJobSays:
    """The default of an argument whose None, as a DataLoader has it, would mean something else."""

    def __repr__(self) -> str:
        return "as the job file says"


AS_THE_JOB_SAYS: Any = _AsTheJobSays()


@dataclass
class Wishes:
    optimizer: Any = None
    schedule: Any = None
    schedule_per: str | None = None
    evaluate: Callable[..., Any] | None = None
    batch_size: int | None = AS_THE_JOB_SAYS  # None behind check()
    epochs: float | None = None
    clip: float | None = None
    scaler: Any = None
    weights: str | None = None
    processes: int = 1
    # These are run()'s: a function for a micro-batch's loss, and the lists of blocks between which the model may be
    # cut.
    loss: Callable[[Any, Any], Any] | None = None
    blocks: Any = None
    device: Any = None  # the device that the process computes on; None: the one that has the model
    collate_fn: Callable[..., Any] | None = None
    digest: str | None = None
    least_batch: int | None = None
    drop_last: bool = False
    loader: dict[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Refuses arguments of a wrong type or out of range."""
        for name in ("evaluate", "collate_fn", "loss"):
            function = getattr(self, name)
            if function is not None and not callable(function):
                raise PacelineError(f"{name} = {function!r:.60} is not a function; write its name, without ()")
        if self.batch_size is None:
            raise PacelineError(
                "batch_size = None would make each item of the data set a batch, and Paceline counts items as "
                "samples; if an item is a whole batch, write batch_size=1 and collate_fn=lambda items: items[0], and "
                "otherwise a number, or leave batch_size= out for the job file's"
            )
        self.batch_size = None if self.batch_size is AS_THE_JOB_SAYS else _batch("batch_size", self.batch_size)
        if self.least_batch is not None:
            self.least_batch = _batch("least_batch", self.least_batch)
        if not isinstance(self.drop_last, bool):
            raise PacelineError(f"drop_last = {self.drop_last!r:.60} is neither True nor False")
        if self.device is not None:
            self.device = _device(self.device)
        if self.epochs is not None:
            self.epochs = _epochs(self.epochs)
        if self.digest is not None and not isinstance(self.digest, str):
            raise PacelineError(f"digest = {self.digest!r:.60} is not a text; write digest=str(...)")


def _batch(name: str, asked: Any) -> int:
    try:
        batch = operator.index(asked)  # an integer of NumPy, too
    except TypeError:
        batch = 0
    if batch < 1:
        raise PacelineError(f"{name} = {asked!r:.60} is not a number of samples; write a whole number from 1 up")
    return batch


def _device(asked: Any) -> Any:
    import torch

    from .devices import hide_other_instances, number_of_gpu

    try:
        device = torch.device(asked)
    except (RuntimeError, TypeError):
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise PacelineError(f'device = {asked!r:.60} is no device to train on; write "cuda", "cuda:1" or "cpu"')
    if device.type == "cuda":
        if device.index is None:
            hide_other_instances()
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if count == 0:
            raise PacelineError(
                f"device = {asked!r:.60}, and PyTorch sees no GPU here; write "
                "device=paceline.device(), which is the CPU then"
            )
        if device.index is None:
            device = torch.device("cuda", number_of_gpu(count))
        elif device.index >= count:
            raise PacelineError(
                f"device = {asked!r:.60}, and PyTorch sees {count} GPU{'s' if count > 1 else ''} here; write "
                "device=paceline.device()"
            )
    return device


def _epochs(asked: Any) -> float:
    try:
        epochs = math.nan if isinstance(asked, str) else float(asked)
    except (TypeError, ValueError):
        epochs = math.nan
    if not 0 < epochs < math.inf:
        raise PacelineError(f"epochs = {asked!r:.60} is not a number of epochs; write a number above 0")
    return epochs
