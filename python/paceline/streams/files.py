"""Local files as shards: which ones are meant, and those that are open."""

from __future__ import annotations

import glob
import importlib
import os
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable, Generic, TypeVar, Union

from ..errors import PacelineError
from .source import unreadable

Held = TypeVar("Held")

Paths = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]

# Of a list of a million files nobody wants to wait for a look at each; a missing one is named when it is opened.
_LOOKED_AT = 1000
_COMPRESSED = (".gz", ".zst", ".xz", ".bz2")


class Opened(Generic[Held]):
    """The last used of what is made for a key: open files, indices, row groups.

    In a forked process it makes them anew, as an open file's place would be shared with the parent. `keep` says that
    what it holds is plain memory, and can be kept there. Pickled, it is empty.
    """

    def __init__(self, make: Callable[..., Held], most: int = 16, keep: bool = False) -> None:
        self._make = make
        self._most = most
        self._keep = keep
        self._pid = os.getpid()
        self._held: OrderedDict[tuple[int, ...], Held] = OrderedDict()

    def get(self, *key: int) -> Held:
        if self._pid != os.getpid() and not self._keep:
            self._held = OrderedDict()
        self._pid = os.getpid()
        if key in self._held:
            self._held.move_to_end(key)
            return self._held[key]
        held = self._held[key] = self._make(*key)
        if len(self._held) > self._most:
            # A file closes when nobody reads it any more.
            self._held.popitem(last=False)
        return held

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_held": OrderedDict()}


class Files:
    """The files of a source, one a shard."""

    def __init__(self, files: Paths, endings: Sequence[str]) -> None:
        self.files = file_list(files, endings)
        self._bytes: dict[int, int] = {}

    def shards(self) -> list[str]:
        """Returns the paths."""
        return self.files

    def size(self, shard: int) -> int:
        """Returns the bytes of a file. Raises a PacelineError if they are not the same as the first time."""
        name = self.files[shard]
        try:
            now = os.stat(name).st_size
        except OSError as error:
            raise unreadable(name, error.strerror, "give the files that there are on this host") from error
        if self._bytes.setdefault(shard, now) != now:
            raise PacelineError(
                f"the shard {name} has {now} bytes now, and had {self._bytes[shard]}; leave shards unchanged while a "
                "job uses them, and start a new job with the new ones"
            )
        return now


def file_list(files: Paths, endings: Sequence[str]) -> list[str]:
    """Returns the files that a list, a folder or a pattern means.

    From a folder, the ones with one of these endings, sorted by name. Files that a pattern finds are sorted too, and
    a list stays as it is. Raises a PacelineError if there is none.
    """
    if not isinstance(files, (str, os.PathLike)):
        found = [os.fspath(file) for file in files]
        if not found:
            raise PacelineError("a source was given an empty list of files; give it one file or more")
        for file in found[:_LOOKED_AT]:
            if not os.path.isfile(file):
                raise PacelineError(f"{file} is no file on this host; give files that there are")
        return found
    text = os.fspath(files)
    if "://" in text:
        raise PacelineError(
            f"{text} is an address, and sources read local files; copy or mount it, and give its path"
        )
    if os.path.isdir(text):
        files_in = (file for file in Path(text).iterdir() if file.is_file() and not file.name.startswith("."))
        found = sorted(str(file) for file in files_in if not endings or file.name.endswith(tuple(endings)))
        if not found:
            named = f" named *{' or *'.join(endings)}" if endings else ""
            raise PacelineError(f"the folder {text} has no file{named}; give another one")
        return found
    if os.path.exists(text):
        return [text]
    found = sorted(glob.glob(text, recursive=True))
    if not found:
        raise PacelineError(f"{text} is no file, and no file matches it; give a file, a folder, a pattern or a list")
    return found


def refuse_compressed(files: Sequence[str]) -> None:
    """Raises a PacelineError for a file in which no place can be jumped to."""
    for file in files:
        if file.endswith(_COMPRESSED):
            raise PacelineError(
                f"{file} is compressed as a whole, so no record in it can be jumped to; decompress it, or read it "
                "forward: FileShards(files, open=gzip.open)"
            )


def needs(library: str, package: str, what: str) -> Any:
    """Returns the library. Raises a PacelineError that says what needs it if it is not installed."""
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise PacelineError(f"{what} needs {package}, which is not installed; pip install {package}") from error
