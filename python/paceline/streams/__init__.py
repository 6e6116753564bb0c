"""Training sets that are streams: sources of shards, and the one order in which a job reads them."""

from .decoding import decode_member
from .json_lines import JsonLines
from .order import StreamOrder
from .parquet import ParquetFiles
from .source import Source
from .stream import Stream
from .tar_files import TarFiles

__all__ = [
    "JsonLines",
    "ParquetFiles",
    "Source",
    "Stream",
    "StreamOrder",
    "TarFiles",
    "decode_member",
]
