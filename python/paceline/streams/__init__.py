"""Training sets that are streams: sources of shards, and the one order in which a job reads them."""

from .order import StreamOrder
from .source import Source
from .stream import Stream

__all__ = ["Source", "Stream", "StreamOrder"]
