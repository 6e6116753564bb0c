"""Sources: shards with numbered records. A Stream makes one order of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from ..errors import PacelineError


@runtime_checkable
class Source(Protocol):
    """Shards with numbered records, the same in all processes and for the whole job.

    A source is pickled if loader processes are spawned, and copied if they are forked: a file that it holds open must
    be opened again there (Opened does it). What cannot be read is a PacelineError of one line that names the
    shard.
    """

    def shards(self) -> Sequence[str]:
        """Returns the names of the shards, one at least. The order of the list is part of the stream's order."""
        ...

    def length(self, shard: int) -> int:
        """Returns the records of a shard; the shard may be opened for it. Several threads may call it, each for its
        own shards."""
        ...

    def read(self, shard: int, records: Sequence[int]) -> list[Any]:
        """Returns these records of a shard, whose numbers ascend; 0 <= each < length(shard)."""
        ...


def changed(name: str, before: int, now: int) -> PacelineError:
    """Returns the error for a shard that has another length than before."""
    return PacelineError(
        f"the shard {name} has {now} records now, and had {before}; leave shards unchanged while a job uses them, "
        "and start a new job with the new ones"
    )


def unreadable(name: str, why: object, way_out: str) -> PacelineError:
    """Returns the error for a shard that cannot be read: its name, the reason in one line, and the way out."""
    reason = " ".join(str(why).split()) or type(why).__name__
    return PacelineError(f"the shard {name} cannot be read: {reason}; {way_out}")
