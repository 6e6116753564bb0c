"""A program that sets an attribute of its training set or collate_fn in the loop, behind its loader processes' start.

The DataLoader of plain PyTorch starts its processes at each epoch, with both as they are then. A job's processes
start once, and would go on with the old value.
"""

from __future__ import annotations

import dis
import functools
import inspect
import pickle
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from torch.utils.data import Dataset

from .epochs import is_filled
from .errors import PacelineError
from .streams import Stream

# A longer list is data.
_MOST_ELEMENTS = 1000
# Methods that read a sample, in loader processes.
_READING = ("__getitem__", "__len__", "__getattr__")
# Functions of a stream that a program may set.
_OF_STREAM = {"map", "keep", "pack"}
# Values that are compared as such; a method's pickle has its whole object.
_PLAIN = (bool, int, float, str, bytes, types.MethodType)


@dataclass
class _Watched:
    one: Any  # loader processes have a copy of it
    counting: set[str]  # attributes
    role: str
    owner: str  # the place for a set_epoch()
    before: dict[str, Any]

    def now(self) -> dict[str, Any]:
        return {name: value for name, value in _own(self.one).items() if name in self.counting}


class DataSetChanges:
    """Only an attribute that reading a sample looks at counts, and only if neither that nor set_epoch() sets it.

    So a cache that is filled, a file that is opened at the first sample and a counter of samples do not count. The
    same holds for what collating a batch looks at, of the object whose method the collate_fn is.
    """

    def __init__(self, train_set: Any, collate: Any = None) -> None:
        data_sets = _data_sets_in(train_set)
        counting = _OF_STREAM if isinstance(train_set, Stream) else _counting(data_sets, _READING)
        self._watched = [_Watched(one, counting, "training set", "the data set", {}) for one in data_sets]
        one, method = _object_of(collate)
        counting = _counting([one], [method], _READING)
        self._watched.append(_Watched(one, counting, "collate_fn", type(one).__name__, {}))
        self.note()

    def note(self) -> None:
        """The attributes are now those that loader processes have."""
        for watched in self._watched:
            watched.before = watched.now()

    def check(self) -> None:
        """Raises an error if the program has set one since."""
        for watched in self._watched:
            now = watched.now()
            for name, value in watched.before.items():
                if name not in now:
                    continue
                if not _same(value, now[name]):
                    raise PacelineError(
                        f"the program has set {name} of its {watched.role} ({type(watched.one).__name__}) since "
                        "join(), and the loader processes, which began in join(), would go on with the old value; "
                        f"set it in a method set_epoch(self, epoch) of {watched.owner}, which they call too, or give "
                        "join() num_workers=0"
                    )
                watched.before[name] = now[name]


def _counting(objects: list[Any], methods: Iterable[str], others: Iterable[str] = ()) -> set[str]:
    """The attributes that these methods look at, and that neither they nor the others nor set_epoch() set."""
    classes = {own: None for one in objects for own in type(one).__mro__ if own is not object}
    looked_at, _ = _attributes_of(classes, methods)
    _, set_by_itself = _attributes_of(classes, (*methods, *others, "set_epoch"))
    return looked_at - set_by_itself


def _object_of(collate: Any) -> tuple[Any, str]:
    """The object that collates, and the name of its method."""
    while isinstance(collate, functools.partial):
        collate = collate.func
    if isinstance(collate, types.MethodType):
        return collate.__self__, getattr(collate.__func__, "__name__", "")
    return collate, "__call__"


def _own(one: Any) -> dict[str, Any]:
    own = getattr(one, "__dict__", None)
    return own if isinstance(own, dict) else {}


def _same(before: Any, now: Any) -> bool:
    if before is now:
        return True
    if type(before) is not type(now):
        return False
    if isinstance(before, _PLAIN):
        return bool(before == now)
    try:  # the program may have made an equal transform anew
        return pickle.dumps(before) == pickle.dumps(now)
    except Exception:
        return False


def _data_sets_in(train_set: Any) -> list[Any]:
    """The training set and those that it consists of, as a Subset and a ConcatDataset do."""
    found = {id(train_set): train_set}
    waiting = [train_set]
    while waiting and len(found) < _MOST_ELEMENTS:
        for value in _own(waiting.pop()).values():
            parts = value if isinstance(value, (list, tuple)) and len(value) <= _MOST_ELEMENTS else (value,)
            for part in parts:
                if isinstance(part, Dataset) and id(part) not in found:
                    found[id(part)] = part
                    waiting.append(part)
    return list(found.values())


def _attributes_of(classes: Iterable[type], methods: Iterable[str]) -> tuple[set[str], set[str]]:
    """The attributes that these methods, and the methods that they call, look at; and those that they set.

    A name stands for all methods of this name, and an attribute may be another object's.
    """
    looked_at: set[str] = set()
    set_there: set[str] = set()
    waiting = list(methods)
    known = set(waiting)
    while waiting:
        name = waiting.pop()
        for own in classes:
            for code in _codes_of(own.__dict__.get(name)):
                reads, sets = _names_in(code)
                looked_at |= reads
                set_there |= sets
                waiting += reads - known
                known |= reads
    return looked_at, set_there


def _codes_of(method: Any) -> Iterator[types.CodeType]:
    """The code of a method or property, and of the functions that it wraps or has inside."""
    waiting, seen = [method], set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, types.CodeType):
            yield one
            waiting += one.co_consts
        elif inspect.isfunction(one):
            waiting += [one.__code__, getattr(one, "__wrapped__", None)]
            waiting += [cell.cell_contents for cell in one.__closure__ or () if is_filled(cell)]
        elif method is one:  # a decorated one: a property, a classmethod, one with a cache
            waiting += [getattr(one, name, None) for name in ("fget", "func", "__func__", "__wrapped__")]


def _names_in(code: types.CodeType) -> tuple[set[str], set[str]]:
    reads: set[str] = set()
    sets: set[str] = set()
    by_name = {"getattr", "setattr", "__dict__", "vars"} & set(code.co_names)
    for instruction in dis.get_instructions(code):
        name = instruction.argval
        if not isinstance(name, str):
            continue
        if instruction.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"):
            reads.add(name)
        elif instruction.opname in ("STORE_ATTR", "DELETE_ATTR"):
            sets.add(name)
        elif instruction.opname == "LOAD_CONST" and by_name:  # getattr(self, "mosaic")
            reads.add(name)
            sets |= {name} - ({name} if by_name == {"getattr"} else set())
    return reads, sets
