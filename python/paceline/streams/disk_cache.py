"""Files that the processes of a host make once, and keep on its disk up to a number of bytes.

A key's file is made by one process at a time, under a lock, and gets its name when it is whole. If there is no room,
the least recently used files are deleted. A process that has one of them open can still read it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from ..held_files import close_held, open_held

Made = TypeVar("Made")

_LOCKS = 64
_AGAIN = 20  # tries to use a file that others push out at once
_WHOLE = re.compile(r"[0-9a-f]{32}(-.*)?", re.DOTALL)  # a name by using()
_PARTIAL = re.compile(r"[0-9a-f]{32}\.[0-9a-f]{32}\.([0-9]+)\.part")  # a name by _make(), with the bytes it will have


def cache_folder() -> Path:
    """Returns the folder of this user's caches on this host. It need not be there."""
    if given := os.environ.get("PACELINE_CACHE"):
        return Path(given).expanduser().absolute()
    home = os.path.expanduser("~")
    if not os.path.isabs(home):  # a user without a name and without HOME, whose home containers call "/"
        home = os.sep
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")).absolute() / "paceline"


class NoRoom(OSError):
    """A file is larger than the cache may be."""


class DiskCache:
    def __init__(self, folder: Path, most_bytes: int) -> None:
        self.folder = folder
        self.most_bytes = most_bytes

    def using(
        self, key: str, make: Callable[[Path], None], use: Callable[[Path], Made], size: int = 0, ending: str = ""
    ) -> Made:
        """Returns what `use` makes of the key's file, which `make` writes if it is not there.

        size: the bytes that it has, if they are known: a file of another size is made again. ending: of the file's
        name.
        Raises NoRoom, and what `make` and `use` raise. OSError if the folder cannot be written.
        """
        name = _name_of(key)
        path = self.folder / f"{name}{ending}"
        for _ in range(_AGAIN):
            try:
                os.utime(path)  # used now
                if not size or path.stat().st_size == size:
                    return use(path)
                self.forget(path)  # a loss of power has torn it
            except FileNotFoundError as error:
                if not _is_of(error, path):
                    raise
            with self._locked(name):
                if not path.exists():
                    self._make(name, path, make, size)
        raise NoRoom(f"{self.folder} is too small for all that is read at once")

    def own(self, key: str) -> bytes | None:
        """Returns what is in the key's file, if it is there and no other user can have written it."""
        try:
            with open(self.folder / _name_of(key), "rb", opener=_open_no_link) as file:
                about = os.fstat(file.fileno())
                if about.st_uid != os.getuid() or about.st_mode & 0o022:
                    return None
                os.utime(file.fileno())  # used now
                return file.read()
        except OSError:
            return None

    def replace(self, key: str, data: bytes) -> None:
        """The key's file becomes this one, which this user alone can read and write. Raises OSError."""
        name = _name_of(key)

        def write(path: Path) -> None:
            path.write_bytes(data)

        with self._locked(name):
            self._make(name, self.folder / name, write, len(data), mode=0o600)

    def append(self, key: str, data: bytes) -> None:
        """The key's file, which may be new, gets this at its end. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self.folder / _name_of(key)
        with open(path, "ab", buffering=0, opener=_open_no_link) as file:
            file.write(data)

    def forget(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def make_room(self, size: int) -> None:
        """Deletes the files that were not used for the longest time, until `size` bytes more are within the bound."""
        if size > self.most_bytes:
            raise NoRoom(f"it has {size} bytes, and the cache may have {self.most_bytes}")
        files, used = [], 0
        for file in self.folder.iterdir():
            with contextlib.suppress(FileNotFoundError):
                # The folder may have files of others.
                partial = _PARTIAL.fullmatch(file.name)
                if partial and not self._is_left_over(file):
                    used += max(file.stat().st_size, int(partial[1]))
                elif _WHOLE.fullmatch(file.name):
                    about = file.stat()
                    used += about.st_size
                    files.append((about.st_mtime, about.st_size, file))
        for _, bytes_of_it, file in sorted(files):
            if used + size <= self.most_bytes:
                return
            file.unlink(missing_ok=True)
            used -= bytes_of_it

    def _make(self, name: str, path: Path, make: Callable[[Path], None], size: int, mode: int = 0o666) -> None:
        # If the folder is deleted, locks are lost with it, and others may make this file at the same time.
        partial = self.folder / f"{name}.{uuid.uuid4().hex}.{size}.part"
        try:
            self.make_room(size)  # before the partial file is there, which counts with the bytes it will have
            partial.touch(mode)
            try:
                make(partial)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                self.make_room(self.most_bytes)
                make(partial)
            if size == 0:  # otherwise a file that a loss of power has torn shows by its size
                _sync(partial)
            partial.rename(path)
        except FileNotFoundError:
            if partial.exists():
                raise
            return  # the folder was deleted
        finally:
            partial.unlink(missing_ok=True)
        if size == 0:
            with contextlib.suppress(FileNotFoundError):
                self.make_room(0)

    def _is_left_over(self, file: Path) -> bool:
        """Whether the maker of a partial file was killed. The file is gone then."""
        with self._locked(file.name.partition(".")[0], wait=False) as locked:
            if locked:
                file.unlink(missing_ok=True)
            return locked

    @contextlib.contextmanager
    def _locked(self, name: str, wait: bool = True) -> Iterator[bool]:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = open_held(self.folder / f"lock-{int(name, 16) % _LOCKS:02}", 0o600)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            # A child that was forked before this lock was known as held has it, too, and would keep it.
            fcntl.flock(lock, fcntl.LOCK_UN)
            close_held(lock)


def _sync(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def _is_of(error: FileNotFoundError, path: Path) -> bool:
    """Whether this file is missing, and not another one that its user has looked for."""
    return error.filename is None or os.path.abspath(os.fsdecode(error.filename)) == str(path.absolute())


def _name_of(key: str) -> str:
    # The name of a file may be no UTF-8.
    return hashlib.blake2b(key.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
