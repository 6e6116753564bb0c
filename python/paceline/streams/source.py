"""Sources: shards with numbered records. A Stream makes one order of them."""

from __future__ import annotations

import glob
import os
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable, Generic, Protocol, TypeVar, Union, runtime_checkable

from ..errors import PacelineError

Opened = TypeVar("Opened")

Paths = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]


@runtime_checkable
class Source(Protocol):
    """Shards with numbered records, the same in all processes and for the whole job.

    A source is pickled if loader processes are spawned, and copied if they are forked: a file that it holds open must
    be opened again there (OpenFiles does it). What cannot be read is a PacelineError of one line that names the
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


class OpenFiles(Generic[Opened]):
    """The few last used of a source's open shards. A forked or a spawned process opens its own."""

    def __init__(self, open_shard: Callable[[int], Opened], most: int = 16) -> None:
        self._open = open_shard
        self._most = most
        self._pid = os.getpid()
        self._opened: OrderedDict[int, Opened] = OrderedDict()

    def get(self, shard: int) -> Opened:
        if self._pid != os.getpid():  # forked: a file's place would be shared with the parent
            self._pid = os.getpid()
            self._opened = OrderedDict()
        if shard in self._opened:
            self._opened.move_to_end(shard)
        else:
            self._opened[shard] = self._open(shard)
            if len(self._opened) > self._most:
                # A file closes when nobody reads it any more.
                self._opened.popitem(last=False)
        return self._opened[shard]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": OrderedDict(), "_pid": -1}


def file_list(files: Paths, endings: Sequence[str]) -> list[str]:
    """Returns the files that a list, a folder or a pattern means.

    Of a folder, those with one of the endings, sorted by name; what a pattern finds is sorted too, and a list stays
    as it is. Raises a PacelineError if there is none.
    """
    if not isinstance(files, (str, os.PathLike)):
        found = [os.fspath(file) for file in files]
        if not found:
            raise PacelineError("a source was given an empty list of files; give it one file or more")
        return found
    text = os.fspath(files)
    if "://" in text:
        raise PacelineError(
            f"{text} is an address, and sources read local files; copy or mount it, and give its path"
        )
    if os.path.isdir(text):
        found = sorted(str(file) for file in Path(text).iterdir() if file.name.endswith(tuple(endings)))
        if not found:
            raise PacelineError(f"the folder {text} has no file named *{' or *'.join(endings)}; give another one")
        return found
    if os.path.exists(text):
        return [text]
    found = sorted(glob.glob(text, recursive=True))
    if not found:
        raise PacelineError(f"{text} is no file, and no file matches it; give a file, a folder, a pattern or a list")
    return found


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
