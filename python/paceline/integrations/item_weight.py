"""Whether a Trainer's loss is a mean over the items that transformers counts, such as tokens, or one over samples."""

from __future__ import annotations

import dis
import inspect
from typing import Any

from .transformers_refusals import LIBRARIES

_COUNT = "num_items_in_batch"
_LOSS = "compute_loss"


def weighs_by_items(trainer: type) -> bool:
    """False if a compute_loss() of the person's own neither looks at the number of items nor calls Trainer's."""
    for one in trainer.__mro__:
        if _LOSS in one.__dict__ and not one.__module__.startswith(LIBRARIES):
            return _may_use_count(one.__dict__[_LOSS])
    return True


def _may_use_count(function: Any) -> bool:
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return True
    used = {_COUNT, _LOSS}
    if code.co_flags & inspect.CO_VARKEYWORDS:  # **named may hand the number on
        arguments = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)
        used.add(code.co_varnames[arguments])
    return any(used & _read(instruction) for instruction in dis.get_instructions(code))


def _read(instruction: dis.Instruction) -> set[Any]:
    """The names and texts that an instruction reads; some read two."""
    if not instruction.opname.startswith("LOAD"):
        return set()
    value = instruction.argval
    return {one for one in (value if isinstance(value, tuple) else (value,)) if isinstance(one, str)}
