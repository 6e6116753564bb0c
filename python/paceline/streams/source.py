"""Sources: shards with numbered records. A Stream makes one order of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from ..errors import PacelineError


@runtime_checkable
class Source(Protocol):
    """Shards with numbered records, the same in all processes and for the whole job.

    A source is pickled if loader processes are spawned, and copied if they are forked: a file that it holds open must
    be opened again there (files.Opened does it). A shard that cannot be read is a PacelineError of one line that
    names it.

    A source that knows the length of a shard only after reading it has `sized = False`, and up_to() instead of
    length(). One with a method soon(shards) is told the shards that are opened next.

    A source with `in_order = True` orders its records itself, as Mixture does. Then shards are read in their order,
    and read() gets the number of the pass as a third argument.
    """

    def shards(self) -> Sequence[str]:
        """Returns the names of the shards, one at least. The order of the list is part of the stream's order."""
        ...

    def length(self, shard: int) -> int:
        """Returns the records of a shard; the shard may be opened for it."""
        ...

    def read(self, shard: int, records: Sequence[int]) -> list[Any]:
        """Returns these records of a shard, whose numbers ascend; 0 <= each < length(shard)."""
        ...


class UnsizedSource(Protocol):
    """A source that knows the length of a shard only after reading it."""

    sized: bool  # false

    def shards(self) -> Sequence[str]: ...

    def up_to(self, shard: int, most: int) -> int:
        """Returns the records of a shard, but `most` if it has more. So no shard is read further than needed."""
        ...

    def read(self, shard: int, records: Sequence[int]) -> list[Any]: ...


def is_sized(source: Any) -> bool:
    return bool(getattr(source, "sized", True))


def up_to(source: Any, shard: int, most: int) -> int:
    """The records of a shard, but `most` if it has more."""
    records = source.length(shard) if is_sized(source) else source.up_to(shard, most)
    return min(most, number_of(records, lambda: source.shards()[shard]))


def number_of(records: Any, name: Callable[[], str]) -> int:
    """Returns the length of a shard as a number. Raises a PacelineError if it is none."""
    try:
        number = operator.index(records)
    except TypeError:
        number = -1
    if number < 0:
        raise PacelineError(
            f"the length of the shard {name()} is {records!r:.80}; let what says it return a whole number from 0 up"
        )
    return number


def changed(name: str, before: int, now: int) -> PacelineError:
    """Returns the error for a shard that has another length than before."""
    return PacelineError(
        f"the shard {name} has {now} records now, and had {before}; leave shards unchanged while a job uses them, "
        "and start a new job with the new ones"
    )


class Damaged(PacelineError):
    """A shard, or some records of it, are there and cannot be read. Each reader finds the same.

    records: how many records of the shard come before the damage, if nothing behind it can be read.
    """

    records = 0


def unreadable(name: str, why: object, way_out: str) -> Damaged:
    """Returns the error for a damaged shard: its name, the reason in one line, and the way out."""
    return Damaged(_line(name, why, way_out))


def unreachable(name: str, why: object, way_out: str) -> PacelineError:
    """Returns the error for a shard that this process cannot get at, and others may."""
    return PacelineError(_line(name, why, way_out))


def not_read(name: str, error: Exception, way_out: str) -> PacelineError:
    """Returns the error for a shard that a library has not read. It is damaged, unless the system has refused it.

    way_out: for a damaged one.
    """
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno is not None):
        return unreachable(name, error, "see that it can be read on this host")
    return unreadable(name, error, way_out)


def _line(name: str, why: object, way_out: str) -> str:
    reason = " ".join(str(why).split()) or type(why).__name__
    return f"the shard {name} cannot be read: {reason}; {way_out}"
