"""Files behind addresses, which are copied to this host's disk before they are read."""

from __future__ import annotations

import contextlib
import copy
import errno
import importlib
import os
import random
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ..errors import PacelineError
from .disk_cache import DiskCache, NoRoom, cache_folder
from .source import unreachable

Made = TypeVar("Made")

_FIRST_WAIT = 0.5  # seconds; doubled at each further try
_LOOKED_AT = 1000  # files of a list, for paths among its addresses
COMPRESSED = (".gz", ".tgz", ".zst", ".xz", ".bz2")
_QUIET_SECONDS = 60  # without a byte, a read has failed
# Entries of a filesystem's info() that differ if the file does. Their names are those of HTTP, S3, Azure's and
# Google's storage, Hugging Face's hub, WebDAV and others.
_MARKS = (
    "ETag",
    "etag",
    "Last-Modified",
    "LastModified",
    "last_modified",
    "modified",
    "mtime",
    "updated",
    "Content-MD5",
    "Digest",
    "md5Hash",
    "blob_id",
)
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")


def is_address(text: Any) -> bool:
    return isinstance(text, str) and _SCHEME.match(text) is not None


class Remote:
    """Files of https://, s3:// and what else fsspec knows, in place of paths: ParquetFiles(Remote("s3://…/*.parquet")).

    An address alone is a Remote with the defaults. Each file is copied once a host, by one process, when a reader
    needs it or soon will.
    """

    def __init__(
        self,
        files: str | Sequence[str],
        *,
        cache: str | os.PathLike[str] | None = None,
        gigabytes: float = 64,
        tries: int = 5,
        **storage: Any,
    ) -> None:
        """files: an address, one with a pattern (*, ?, [a-z] or {000..127}), or a list of addresses.

        cache: the folder of the copies, the same for all processes of a host. gigabytes: the most that they take
        there; the ones that nobody has used for the longest time go first. tries: how often a read is tried before
        the job ends. storage: options of the fsspec filesystem, such as anon=True.
        """
        if not isinstance(files, (str, Sequence)) or not files:
            raise PacelineError(f"a Remote was given {files!r:.80}; give it an address or a list of addresses")
        self.given = [files] if isinstance(files, str) else list(files)
        for address in self.given:
            if not is_address(address):
                raise PacelineError(
                    f"{address!r:.80} is no address; write https://…, s3://… or another that fsspec knows"
                )
        if not isinstance(gigabytes, (int, float)) or not 0 < gigabytes < 1e9:
            raise PacelineError(f"gigabytes = {gigabytes!r} is no size of a cache; write a number above 0")
        if not isinstance(tries, int) or isinstance(tries, bool) or tries < 1:
            raise PacelineError(f"tries = {tries!r} is no number of tries; write 1 or more")
        folder = Path(cache).expanduser().absolute() if cache else cache_folder() / "shards"
        self._cache = DiskCache(folder, int(gigabytes * 1e9))
        self._tries = tries
        self._storage = storage
        self._about: dict[str, tuple[int | None, str]] = {}

    def at(self, addresses: Sequence[str]) -> Remote:
        """Returns other files of the same storage and cache."""
        other = copy.copy(self)
        other.given = [*addresses]
        return other

    def files(self, endings: Sequence[str]) -> list[str]:
        """Returns the addresses that are meant. Raises a PacelineError if there is none."""
        found = [one for address in self.given for one in self._meant(address, endings)]
        if not found:
            way_out = "give the address of one, or a pattern"
            if "[" in without_query(self.given[0]):
                sign = "%5B" if _is_http(self.given[0]) else "[[]"
                way_out = f"[…] is a pattern there, so write {sign} for a [ of a name"
            raise PacelineError(f"no file is at {self.given[0]}; {way_out}")
        return found

    def size(self, address: str) -> int | None:
        """Returns the bytes of a file; None if the server does not say."""
        return self._asked(address)[0]

    def identity(self, address: str) -> str:
        """Returns a text that differs if the file does, as far as the server tells."""
        return self._asked(address)[1]

    def using(self, address: str, use: Callable[[str], Made]) -> Made:
        """Returns what `use` makes of the path of a copy, which is there at least until it returns."""
        size = self.size(address)
        key = f"{address} {self.identity(address)}"
        ending = "-" + re.sub(r"[^A-Za-z0-9._-]", "_", without_query(address).rsplit("/", 1)[-1])[-64:]
        failed: list[OSError] = []

        def use_copy(path: Path) -> Made:
            try:
                return use(str(path))
            except OSError as error:
                failed.append(error)
                raise

        try:
            return self._cache.using(key, lambda path: self._copy(address, size, path), use_copy, size or 0, ending)
        except NoRoom as error:
            way_out = f"give Remote(gigabytes=) more room in {self._cache.folder}"
            raise unreachable(address, error, way_out) from error
        except OSError as error:
            if error in failed:
                raise
            raise self._full(address, error) from error

    def reading(self, address: str, use: Callable[[Any], Made]) -> Made:
        """Returns what `use` makes of the file, opened where it is. To be used for a small part of it."""

        def read() -> Made:
            system, path = self._system(address)
            with system.open(path, "rb") as file:
                return use(file)

        return self._tried(address, read)

    def head(self, address: str, size: int) -> bytes | None:
        """Returns the first bytes of a file; None if there is none there, as far as the storage tells."""
        with contextlib.suppress(Exception):  # some storages refuse to say that there is none
            system, path = self._system(address)
            if system.exists(path):
                with system.open(path, "rb") as file:
                    return bytes(file.read(size))
        return None

    def _meant(self, address: str, endings: Sequence[str]) -> list[str]:
        expanded = braces(address)
        if len(expanded) > 1 or not any(sign in without_query(address).split("://", 1)[1] for sign in "*?["):
            if address.endswith("/"):
                found = {one for ending in endings or ("",) for one in self._matching(f"{address}*{ending}").items()}
                return sorted(one for one, is_folder in found if not is_folder)
            return expanded
        matching = self._matching(address)
        folder = next((one for one, is_folder in matching.items() if is_folder), None)
        if folder is not None and "**" not in address:
            raise PacelineError(
                f"{folder} is a folder, and {address} matches it; write a pattern of files, such as {address}/*"
            )
        return [one for one, is_folder in matching.items() if not is_folder]

    def _matching(self, pattern: str) -> dict[str, bool]:
        """The addresses that match, sorted, and whether each is a folder."""

        def find() -> dict[str, bool]:
            system, path = self._system(pattern)
            found = system.glob(path, detail=True).items()
            return dict(sorted((system.unstrip_protocol(one), _is_folder(info)) for one, info in found))

        return self._tried(pattern, find)

    def _asked(self, address: str) -> tuple[int | None, str]:
        if address not in self._about:

            def ask() -> dict[str, Any]:
                system, path = self._system(address)
                return dict(system.info(path))

            info = self._tried(address, ask)
            if _is_folder(info):
                raise PacelineError(f"{address} is a folder; write {address.rstrip('/')}/ for the files in it")
            size = info.get("size")
            marks = [str(info[name]) for name in _MARKS if info.get(name)]
            self._about[address] = (int(size) if size is not None else None, f"{size} {' '.join(marks)}")
        return self._about[address]

    def _copy(self, address: str, size: int | None, path: Path) -> None:
        def get() -> None:
            system, there = self._system(address)
            system.get_file(there, str(path))
            got = path.stat().st_size
            if size is not None and got != size:
                raise EOFError(f"{got} of {size} bytes came")

        self._tried(address, get)

    def _tried(self, address: str, what: Callable[[], Made]) -> Made:
        for attempt in range(self._tries):
            try:
                return what()
            except PacelineError:
                raise
            except PermissionError as error:
                if error.filename is not None:
                    raise  # the cache's
                way_out = "give Remote() what the storage wants, such as key= and secret="
                raise unreachable(address, error, way_out) from error
            except Exception as error:
                fault = _answer_of(error) if _is_http(address) else error
                if isinstance(fault, FileNotFoundError):
                    raise unreachable(address, "no such file", "give addresses of files that there are") from error
                if getattr(fault, "status", 0) in (401, 403):
                    way_out = 'give Remote() what the server wants, such as headers={"Authorization": "Bearer …"}'
                    raise unreachable(address, fault, way_out) from error
                if isinstance(fault, OSError) and fault.errno in (
                    errno.ENOSPC,
                    errno.EDQUOT,
                    errno.EFBIG,
                    errno.EROFS,
                ):
                    raise
                if attempt + 1 == self._tries:
                    times = "1 try" if self._tries == 1 else f"{self._tries} tries"
                    reason = f"{str(fault) or type(fault).__name__} (after {times})"
                    way_out = "see that the storage answers, and resume the run; Remote(tries=) waits longer"
                    raise unreachable(address, reason, way_out) from error
                time.sleep(_FIRST_WAIT * 2**attempt * random.uniform(0.5, 1))
        raise AssertionError

    def _system(self, address: str) -> tuple[Any, str]:
        """The filesystem, which fsspec makes anew in a forked process, and the path in it."""
        try:
            fsspec = importlib.import_module("fsspec")
        except ImportError as error:
            raise PacelineError(f"{address} needs fsspec, which is not installed; pip install fsspec") from error
        options = dict(self._storage)
        if _is_http(address):
            options.setdefault("client_kwargs", _client(without_query(address)))
        try:
            system, path = fsspec.url_to_fs(address, **options)
        except (ImportError, ValueError) as error:
            scheme = address.partition("://")[0]
            known = importlib.import_module("fsspec.registry")
            if scheme not in known.known_implementations and scheme not in known.registry:
                raise PacelineError(
                    f"{scheme}:// of {address} is unknown to fsspec; write https://, s3:// or another that it knows"
                ) from error
            raise PacelineError(f"fsspec cannot open {address}: {error}; install what it asks for") from error
        return system, str(path)

    def _full(self, address: str, error: OSError) -> PacelineError:
        return PacelineError(
            f"the cache {self._cache.folder} cannot take {address}: {error.strerror or error}; free space there, or "
            "give Remote(cache=) another folder"
        )


def remote(files: Any) -> Remote | None:
    """Returns files as a Remote, if they are one or addresses."""
    if isinstance(files, Remote):
        return files
    if is_address(files):
        return Remote(files)
    if not isinstance(files, Sequence) or isinstance(files, str) or not files:
        return None
    first = files[0]
    other = next((one for one in files[:_LOOKED_AT] if is_address(one) != is_address(first)), None)
    if other is not None:
        address, path = (first, other) if is_address(first) else (other, first)
        raise PacelineError(
            f"a list has addresses ({address}) and paths ({path}); write all as addresses: file:///… for those here"
        )
    return Remote(list(files)) if is_address(first) else None


def braces(text: str) -> list[str]:
    """Returns the names that {000..127} and {a,b} in a text mean, in order."""
    found = re.search(r"\{(\d+)\.\.(\d+)\}|\{([^{}]*,[^{}]*)\}", text)
    if found is None:
        return [text]
    if found[3] is not None:
        middles = found[3].split(",")
    else:
        width = len(found[1]) if found[1].startswith("0") else 0
        middles = [str(number).zfill(width) for number in range(int(found[1]), int(found[2]) + 1)]
    return [one for middle in middles for one in braces(text[: found.start()] + middle + text[found.end() :])]


def file_name(name: str) -> str:
    """The name of a shard without its folder, and without the query of an address, such as a signature."""
    return os.path.basename(without_query(name))


def _is_folder(info: Any) -> bool:
    return isinstance(info, dict) and info.get("type") == "directory"


def _is_http(address: str) -> bool:
    return address.lower().startswith(("http://", "https://"))


def without_query(address: str) -> str:
    """The address without what follows "?" in one of HTTP, such as a signature."""
    return address.partition("?")[0] if _is_http(address) else address


def _answer_of(error: Exception) -> Exception:
    """The fault itself, as fsspec says "no such file" for each one of a server that is asked for a size."""
    cause = error.__cause__
    if not isinstance(error, FileNotFoundError) or not isinstance(cause, Exception):
        return error
    return error if getattr(cause, "status", 0) in (404, 410) else cause


def _client(path: str) -> dict[str, Any]:
    """Options of aiohttp's client. By itself it waits five minutes for a whole answer, and a shard may take longer.

    Some servers say that a file named .gz is encoded so, and the client would then decompress it.
    """
    import aiohttp

    patient = aiohttp.ClientTimeout(total=None, sock_connect=_QUIET_SECONDS, sock_read=_QUIET_SECONDS)
    if not path.endswith(COMPRESSED):
        return {"timeout": patient}
    return {"timeout": patient, "auto_decompress": False, "headers": {"Accept-Encoding": "identity"}}
