"""One GPU for a process that would take all that it sees."""

from __future__ import annotations

import os
from typing import Any, cast

import torch

from ..devices import STAND_IN, VISIBLE, hide_other_instances, number_of_gpu, see_only
from ..devices import VARIABLE as DEVICE
from ..errors import PacelineError
from ..session import session


def see_one() -> None:
    """PACELINE_DEVICE, or by the worker's number on its host, as device() does. It has to come before CUDA starts."""
    here, cuda = session(), cast(Any, torch.cuda)
    if here is None or cuda.is_initialized():
        return
    named = os.environ.get(DEVICE)
    if named in ("cpu", STAND_IN):
        os.environ[VISIBLE] = ""
        return
    index = torch.device(named).index if named else None
    hide_other_instances(index)
    count = cuda.device_count()
    if count > 1:
        number = number_of_gpu(count) if index is None else index
        see_only(chosen(os.environ.get(VISIBLE), count, number), count)
        _check_that_the_others_are_hidden()


def _check_that_the_others_are_hidden() -> None:
    """CUDA reads the variable once, when it is first asked for GPUs, and PyTorch does not know of that question."""
    ask = getattr(torch._C, "_cuda_getDeviceCount", None)  # PyTorch for processors has no such function
    seen = 0 if ask is None else int(ask())
    if seen > 1:
        raise PacelineError(
            f"this process still sees {seen} GPUs, and all workers would take the first one: a line before this "
            "import has asked for GPUs, as torch.cuda.is_available() does; import "
            "paceline.integrations.transformers before it"
        )


def chosen(visible: str | None, count: int, number: int) -> str:
    """Which of `count` GPUs: a name from the list that is visible now."""
    names = visible.split(",") if visible else [str(gpu) for gpu in range(count)]
    return names[number % count].strip()
