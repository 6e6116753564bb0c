"""Which device this process computes on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from .session import Session, session

if TYPE_CHECKING:
    import torch

VARIABLE = "PACELINE_DEVICE"
STAND_IN = "stand-in"
VISIBLE = "CUDA_VISIBLE_DEVICES"
_visible_at_first = os.environ.get(VISIBLE)
_count_at_first: int | None = None  # the number of cards then, if this process has hidden some since


def device() -> torch.device:
    """PACELINE_DEVICE if it is set; else a GPU by the worker's number on its host, in turn; else the CPU.

    PACELINE_DEVICE=cuda is such a GPU, too. PACELINE_DEVICE=stand-in is the CPU, used through the code that moves
    weights to a GPU: for tests.
    """
    import torch

    named = os.environ.get(VARIABLE)
    asked = torch.device("cpu" if named == STAND_IN else named) if named else None
    if asked is not None and asked.type != "cuda":
        return asked
    hide_other_instances(None if asked is None else asked.index)
    if not torch.cuda.is_available():
        return torch.device("cpu") if asked is None else asked  # PyTorch says why there is none
    if _count_at_first is not None:
        return torch.device("cuda", 0)  # the others are hidden
    if asked is not None and asked.index is not None:
        return asked
    return torch.device("cuda", number_of_gpu(torch.cuda.device_count()))


def number_of_gpu(count: int) -> int:
    """The GPU for this worker: workers of a host take its GPUs in turn, by their numbers."""
    here = session()
    if here is None:
        return 0
    # The numbers of one worker's processes leave room for the other workers between them.
    return (here.on_host + here.rank * max(1, count // here.processes)) % count


def device_count() -> int:
    """How many devices the job has: a schedule that counts steps needs it before join()."""
    here = session()
    return here.devices if here is not None else 1


def evaluates_elsewhere(here: Session) -> bool:
    """The evaluator's device was named, and the whole model goes there."""
    return here.role == "evaluator" and bool(os.environ.get(VARIABLE))


def is_stand_in() -> bool:
    return os.environ.get(VARIABLE) == STAND_IN


def see_only(gpu: str, count: int) -> None:
    """Hides the others of `count` cards from the frameworks of this process."""
    global _count_at_first
    _count_at_first = count
    os.environ[VISIBLE] = gpu


def hide_other_instances(index: int | None = None) -> None:
    """A process sees only the first of several MIG instances. It has to come before CUDA starts.

    index: the number in the list of CUDA_VISIBLE_DEVICES; None: by the worker's number.
    """
    import torch

    names = instances(os.environ)
    if session() is not None and len(names) > 1 and not cast(Any, torch.cuda).is_initialized():
        see_only(names[number_of_gpu(len(names)) if index is None else index % len(names)], len(names))


def instances(environment: Mapping[str, str]) -> list[str]:
    """The MIG instances that a process may choose from."""
    names = [name.strip() for name in environment.get(VISIBLE, "").split(",")]
    return names if all(name.startswith("MIG-") for name in names) else []


def count_at_first(visible: int) -> int:
    """The number of cards that this process was started with, if it sees so many now."""
    return visible if _count_at_first is None else _count_at_first


def environment_at_first() -> dict[str, str]:
    """With all cards that this process was started with, also if it has hidden some from a framework."""
    known = {**os.environ, VISIBLE: _visible_at_first or ""}
    if _visible_at_first is None:
        known.pop(VISIBLE)
    return known
