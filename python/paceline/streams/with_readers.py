"""A stream whose shards are read by processes that the workers of a host share, if they can be read forward only."""

from __future__ import annotations

import hashlib
from typing import Any

from .forward import Forward
from .host_source import HostSource
from .mixture import Mixture
from .remote import file_name
from .stream import Stream


def with_readers(stream: Stream, host: str, readers: int) -> Stream:
    """host: a text that the workers of a job on this host share, and nobody else.

    readers: how many processes read for all of them, for each source.
    """
    source = stream.source
    if isinstance(source, Forward):
        return stream.reading(HostSource(source, f"{host}-{stream.digest()}", readers))
    if not isinstance(source, Mixture):
        return stream

    def shared(name: str, one: Any) -> Any:
        if not isinstance(one, Forward):
            return one
        # The weights are not part of it: after a resume with others, the source goes on from its places.
        shards = [(file_name(shard), one.length(number)) for number, shard in enumerate(one.shards())]
        return HostSource(one, f"{host}-{_digest((name, shards))}", readers)

    return stream.reading(source.reading(shared))


def _digest(what: Any) -> str:
    return hashlib.blake2b(repr(what).encode(), digest_size=8).hexdigest()
