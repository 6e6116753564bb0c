"""The epoch, for the objects of a program that have a set_epoch(): its data set, transforms, a sampler."""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Iterable
from typing import Any

import torch

from .streams.files import Opened
from .streams.forward import Forward

# A longer list is data.
_MOST_ELEMENTS = 1000
_MOST_OBJECTS = 20_000
# Opened holds indices of files, with millions of numbers. Forward is read by processes that hear of no epoch, and the
# places that it keeps are those of any epoch.
_PLAIN = (
    *(str, bytes, bytearray, int, float, complex, bool, type(None), torch.Tensor, type, types.ModuleType),
    *(Opened, Forward),
)


def those_with_set_epoch(roots: Iterable[Any]) -> list[Any]:
    """Among them and what they consist of."""
    found: list[Any] = []
    seen: dict[int, Any] = {}  # with the objects, so that no other one gets their numbers
    waiting = deque(roots)
    while waiting and len(seen) < _MOST_OBJECTS:
        one = waiting.popleft()
        if isinstance(one, _PLAIN) or id(one) in seen:
            continue
        seen[id(one)] = one
        # The method must be of its class or its own: an object that passes all names on to another one does not
        # count.
        own = getattr(one, "__dict__", None)
        own = own if isinstance(own, dict) else {}
        if callable(getattr(type(one), "set_epoch", None)) or callable(own.get("set_epoch")):
            found.append(one)
        waiting.extend(_parts(one, own))
    return found


def _parts(one: Any, own: dict[str, Any]) -> Iterable[Any]:
    if isinstance(one, (list, tuple, set, frozenset)):
        return one if len(one) <= _MOST_ELEMENTS else ()
    if isinstance(one, dict):
        return list(one.values()) if len(one) <= _MOST_ELEMENTS else ()
    if isinstance(one, functools.partial):
        return (one.func, *one.args, *one.keywords.values())
    if isinstance(one, types.MethodType):
        return (one.__self__,)
    if isinstance(one, types.FunctionType):
        # A function or a lambda in a transform may hold another one.
        return [cell.cell_contents for cell in one.__closure__ or () if is_filled(cell)]
    return list(own.values()) if len(own) <= _MOST_ELEMENTS else ()


def is_filled(cell: Any) -> bool:
    """Whether a variable of a function around it has a value yet."""
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
