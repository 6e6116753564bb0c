"""The lengths and states of forward shards, kept on the host's disk for a run that is resumed there.

Only files that no other user can have written are read, as some of them are unpickled. A file that was lost, is torn
or cannot be written costs time only.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import pickle
import time
from typing import Any

from .disk_cache import DiskCache, cache_folder

_MOST_BYTES = 1 << 30
_MOST_BYTES_OF_A_SHARD = 64 << 20
_DIGEST = 16  # bytes before the states
_PAUSE = 50  # states are written for at most one part in so many of the time

States = list[tuple[int, Any]]  # a number of records, and the state after them


class KeptPlaces:
    def __init__(self, name: str) -> None:
        """name: the same for all that read the same records, and for nobody else."""
        self._name = f"places 2 {name}"
        self._cache = DiskCache(cache_folder() / "places", _MOST_BYTES)
        self._lengths: dict[str, int] | None = None
        self._next_write = 0.0

    def length(self, shard: str) -> int | None:
        """The records of a shard, if a reader has come to its end.

        shard: its name, with what differs if the shard does.
        """
        return self._known().get(_short(shard))

    def length_before(self, place: str) -> int | None:
        """The same for the shard at this place of the list, whatever it is now.

        place: the shard's number and name.
        """
        return self._known().get(_short(f"at {place}"))

    def _known(self) -> dict[str, int]:
        if self._lengths is None:
            lengths: dict[str, int] = {}
            for line in (self._cache.own(self._name) or b"").decode(errors="replace").splitlines():
                head, _, digest = line.rpartition(" ")
                if digest == _short(head):  # two that write at the same time may have torn a line
                    shard, length, place = head.split(" ")
                    lengths[shard] = lengths[place] = int(length)
            self._lengths = lengths
        return self._lengths

    def keep_length(self, shard: str, place: str, length: int) -> None:
        line = f"{_short(shard)} {length} {_short(f'at {place}')}"
        with contextlib.suppress(OSError):
            self._cache.append(self._name, f"\n{line} {_short(line)}\n".encode())

    def states(self, shard: str) -> tuple[str, States]:
        """The version and the states that were written last, ascending; none if there are none."""
        key = f"{self._name} {shard}"
        text = self._cache.own(key)
        if text is None or text[:_DIGEST] != _digest(key, text[_DIGEST:]):
            return "", []
        with contextlib.suppress(Exception):  # a class of a pickled state may be gone
            kind, body = text[_DIGEST : _DIGEST + 1], text[_DIGEST + 1 :]
            version, states = json.loads(body) if kind == b"j" else pickle.loads(body)
            return str(version), [(int(number), state) for number, state in states]
        return "", []

    def keep_states(self, shard: str, version: str, states: States) -> None:
        """Unless others were written a moment ago, or these cannot be written."""
        began = time.monotonic()
        if began < self._next_write:
            return
        key = f"{self._name} {shard}"
        with contextlib.suppress(Exception):  # a state may be anything
            what = [version, [[number, state] for number, state in states]]
            body = b"j" + json.dumps(what).encode() if _is_plain(what) else b"p" + pickle.dumps(what)
            if len(body) <= _MOST_BYTES_OF_A_SHARD:
                self._cache.replace(key, _digest(key, body) + body)
        now = time.monotonic()
        self._next_write = now + _PAUSE * (now - began)


def _is_plain(value: Any) -> bool:
    """Whether JSON gives back exactly this."""
    if type(value) is list:
        return all(map(_is_plain, value))
    if type(value) is dict:
        return all(type(key) is str and _is_plain(one) for key, one in value.items())
    return value is None or type(value) in (bool, int, float, str)


def _digest(key: str, body: bytes) -> bytes:
    of_key = hashlib.blake2b(key.encode(errors="surrogatepass")).digest()
    return hashlib.blake2b(body, digest_size=_DIGEST, key=of_key).digest()


def _short(text: str) -> str:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()
