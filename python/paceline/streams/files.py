"""Files as shards: which ones are meant, and the open ones."""

from __future__ import annotations

import contextlib
import glob
import importlib
import os
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, Callable, Generic, TypeVar, Union

from ..errors import PacelineError
from .ahead import Ahead
from .index import kept_index
from .remote import COMPRESSED, Remote, braces, remote
from .source import unreachable

Held = TypeVar("Held")
Made = TypeVar("Made")

Paths = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]], Remote]

# The first files of a list are looked at, as a million would take long; a missing one is named when it is opened.
_LOOKED_AT = 1000
_SMALL = 1 << 18  # bytes; to look for an index on the disk takes longer


class Opened(Generic[Held]):
    """The last used of what is made for a key: open files, indices, row groups.

    In a forked process it makes them anew, as an open file's place would be shared with the parent. `keep` says that
    what it holds is plain memory, and can be kept there. Pickled, it is empty. Several threads may use it.
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
        try:
            held = self._held[key]
            self._held.move_to_end(key)
        except KeyError:  # another thread may have put it out since the line before
            held = self._held[key] = self._make(*key)
        with contextlib.suppress(KeyError):
            # A file closes when nobody reads it any more.
            while len(self._held) > self._most:
                self._held.popitem(last=False)
        return held

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_held": OrderedDict()}


class Files:
    """The files of a source, one a shard. They are paths, or addresses with copies on this host's disk."""

    def __init__(self, files: Paths, endings: Sequence[str]) -> None:
        self._remote = remote(files)
        self.files = self._remote.files(endings) if self._remote else file_list(files, endings)
        self._ahead = Ahead()
        self._seen: dict[int, tuple[int, int, int]] = {}  # bytes, time and inode

    @property
    def are_copies(self) -> bool:
        """Whether using() gives paths of copies."""
        return self._remote is not None

    def shards(self) -> list[str]:
        """Returns the paths or addresses."""
        return self.files

    def size(self, shard: int) -> int:
        """Returns the bytes of a file. Raises a PacelineError if they are not the same as the first time."""
        if self._remote:
            return self.using(shard, os.path.getsize)
        name = self.files[shard]
        try:
            about = os.stat(name)
        except OSError as error:
            raise unreachable(name, error.strerror, "give the files that there are on this host") from error
        seen = self._seen.setdefault(shard, (about.st_size, about.st_mtime_ns, about.st_ino))
        if seen[0] != about.st_size:
            raise PacelineError(
                f"the shard {name} has {about.st_size} bytes now, and had {seen[0]}; leave shards unchanged while a "
                "job uses them, and start a new job with the new ones"
            )
        return seen[0]

    def first_sizes(self) -> list[int]:
        """Returns the bytes of the first files that are paths. Raises a PacelineError if one is not there."""
        return [] if self._remote else [self.size(shard) for shard in range(min(len(self.files), _LOOKED_AT))]

    def identity(self, shard: int) -> str:
        """Returns a text that differs if the file does. Raises a PacelineError if the file is not there."""
        if self._remote:
            return self._remote.identity(self.files[shard])
        self.size(shard)
        return str(self._seen[shard])

    def using(self, shard: int, use: Callable[[str], Made]) -> Made:
        """Returns what `use` makes of a path of the file. A copy may be deleted later, but not while it is open."""
        return self._remote.using(self.files[shard], use) if self._remote else use(self.files[shard])

    def kept_index(self, shard: int, kind: str, find: Callable[[], bytes]) -> bytes:
        """Returns the index that `find` makes of a file. It is made once a host, and again if the file differs.

        kind: of the index, with its version.
        """
        if not self._remote and self.size(shard) < _SMALL:
            return find()
        name = self.files[shard] if self._remote else os.path.abspath(self.files[shard])
        return kept_index(f"{kind} {name} {self.identity(shard)}", find)

    def soon(self, shards: Sequence[int]) -> None:
        """These shards are read next: copies of files with addresses begin to come now."""
        if self._remote:
            self._ahead.fetch(self._remote, [self.files[shard] for shard in shards])


def file_list(files: Paths, endings: Sequence[str]) -> list[str]:
    """Returns the files that a list, a folder or a pattern means.

    From a folder, the ones with one of these endings, sorted by name. Files that a pattern finds are sorted too, and
    a list stays as it is. Raises a PacelineError if there is none.
    """
    assert not isinstance(files, Remote)
    if not isinstance(files, (str, os.PathLike)):
        found = [os.fspath(file) for file in files]
        if not found:
            raise PacelineError("a source was given an empty list of files; give it one file or more")
        for file in found[:_LOOKED_AT]:
            if not os.path.isfile(file):
                raise PacelineError(f"{file} is no file on this host; give files that there are")
        return found
    text = os.fspath(files)
    if len(expanded := braces(text)) > 1 and not os.path.exists(text):
        return file_list(expanded, endings)
    if os.path.isdir(text):
        files_in = (file for file in Path(text).iterdir() if file.is_file() and not file.name.startswith("."))
        found = sorted(str(file) for file in files_in if not endings or file.name.endswith(tuple(endings)))
        if not found:
            named = f" named *{' or *'.join(endings)}" if endings else ""
            raise PacelineError(f"the folder {text} has no file{named}; give another one")
        return found
    if os.path.isfile(text):
        return [text]
    if os.path.exists(text):
        raise PacelineError(f"{text} is neither a file nor a folder; give a file")
    found = sorted(_matching(text))
    if not found:
        raise PacelineError(f"{text} is no file, and no file matches it; give a file, a folder, a pattern or a list")
    if folder := next((one for one in found[:_LOOKED_AT] if os.path.isdir(one)), None):
        raise PacelineError(
            f"{folder} is a folder, and {text} matches it; write a pattern of files, such as {text}/*"
        )
    return found


def _matching(pattern: str) -> set[str]:
    """The files and folders that match; glob follows a link to a folder above again and again."""
    parts = pattern.split("/")
    if "**" not in parts:
        return set(glob.glob(pattern))
    at = parts.index("**")
    rest = "/".join(parts[at + 1 :])
    head = "/".join(parts[:at]) + ("/" if at else "")
    folders = [folder for base in (glob.glob(head) if head else [""]) for folder in _folders_in(base, ())]
    within = [os.path.join(glob.escape(folder), rest or "*") for folder in folders]
    return {found for one in within for found in _matching(one) if rest or not os.path.isdir(found)}


def _folders_in(folder: str, above: tuple[str, ...]) -> list[str]:
    """The folder and all below it that are not hidden. above: the real paths of those that led to it."""
    real = os.path.realpath(folder)
    if real in above:
        return []
    found = [folder]
    with contextlib.suppress(OSError):  # a folder that may not be read has no files, as for glob
        with os.scandir(folder or os.curdir) as entries:
            names = [one.name for one in entries if one.is_dir() and not one.name.startswith(".")]
        for name in names:
            found += _folders_in(os.path.join(folder, name), (*above, real))
    return found


def refuse_compressed(files: Sequence[str]) -> None:
    """Raises a PacelineError for a file in which no place can be jumped to."""
    for file in files:
        if file.endswith(COMPRESSED):
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


def bytes_at(file: BinaryIO, begin: int, size: int) -> bytes:
    """Returns fewer bytes if the file ends before them."""
    data = os.pread(file.fileno(), size, begin)
    while len(data) < size:  # one call gives 2 GiB at most
        more = os.pread(file.fileno(), size - len(data), begin + len(data))
        if not more:
            break
        data += more
    return data
