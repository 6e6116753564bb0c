"""A program's own steps of a scheduler that the servers know: as many as it has values, and no more.

A worker steps it as often as it likes, for example to print the rate. A fast one has more batches than its even
share, and a scheduler such as OneCycleLR raises an error behind its last step.
"""

from __future__ import annotations

import contextlib
import copyreg
from typing import Any, Callable


class SchedulerSteps:
    """Leaves out steps of the scheduler from now on, also after the job."""

    def __init__(self, scheduler: Any, may_step: Callable[[int], bool], last: int | None = None) -> None:
        """may_step(n): whether step n, from 0, is taken. last: the number of the last one."""
        self.left_out = 0
        self._done = 0
        self._may_step = may_step
        self._last = last
        own: Any = type(scheduler)

        def step(one: Any, *arguments: Any, **named: Any) -> Any:
            return own.step(one, *arguments, **named) if arguments or named else self._step(one, own)

        def reduce(one: Any, protocol: Any) -> Any:
            made, arguments, *rest = own.__reduce_ex__(one, protocol)
            made = _new if made is copyreg.__newobj__ else made  # type: ignore[attr-defined]
            return (made, tuple(own if part is type(one) else part for part in arguments), *rest)

        # An attribute `step` would be in the scheduler's state_dict(). Copies are of the scheduler's own class.
        words = {
            "__slots__": (),
            "__module__": own.__module__,
            "__qualname__": own.__qualname__,
            "__doc__": own.__doc__,
        }
        with contextlib.suppress(TypeError):  # a class that cannot be derived from
            scheduler.__class__ = type(own.__name__, (own,), {**words, "step": step, "__reduce_ex__": reduce})

    def _step(self, scheduler: Any, own: Any) -> Any:
        if not self._may_step(self._done):
            self.left_out += 1
            return None
        self._done += 1
        # Behind its last value a scheduler may have none.
        with contextlib.suppress(*([Exception] if self._done - 1 == self._last else [])):
            return own.step(scheduler)


class FirstSteps:
    """Notices a program that lets epochs pass, and then steps a scheduler once an epoch.

    A slow worker may count epochs by its own batches, and then steps later and seldomer than at each epoch of the
    job. So only steps at two changes of the epoch, one behind the other, count. A step behind the first batch of an
    epoch shows with the second one, which may be of the next epoch.
    """

    _MOST_CHANGES = 2  # changes of the epoch before the first step

    def __init__(self) -> None:
        self._epoch: int | None = None
        self._changes = 0
        self._steps = 0
        self._first: tuple[int, int] | None = None  # the epoch and the change of the first step
        self._may_be = True

    def late(self, epoch: int, steps: int) -> int | None:
        """Call it for each batch, with all steps until then. Returns the epoch of the first one, if it came late."""
        changed = self._epoch not in (None, epoch)
        self._epoch = epoch
        self._changes += changed
        new, self._steps = steps - self._steps, steps
        if new == 0 or not self._may_be:
            return None
        if self._first is None:
            self._first = (epoch, self._changes)
            self._may_be = new == 1 and changed and self._changes > self._MOST_CHANGES
            return None
        self._may_be = False
        first, change = self._first
        return first if new == 1 and changed and self._changes == change + 1 else None


def _new(own: Any, *arguments: Any) -> Any:
    """The same as copyreg.__newobj__(), which pickle accepts for an object's present class only."""
    return own.__new__(own, *arguments)


def limit_steps(scheduler: Any, length: int) -> SchedulerSteps:
    """`length`: the number of the scheduler's values, and so of the steps of a program that steps behind each."""
    return SchedulerSteps(scheduler, lambda done: done < length, length - 1)
