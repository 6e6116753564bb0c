"""Training sets that are streams: sources of shards, and the one order in which a job reads them."""

from .decoding import decode_member
from .forward import FileShards
from .hugging_face import HuggingFace
from .json_lines import JsonLines
from .mds import MdsFolder
from .mixture import Mixture
from .order import StreamOrder
from .parquet import ParquetFiles
from .source import Source
from .stream import Stream
from .tar_files import TarFiles
from .tokens import TokenFile

__all__ = [
    "FileShards",
    "HuggingFace",
    "JsonLines",
    "MdsFolder",
    "Mixture",
    "ParquetFiles",
    "Source",
    "Stream",
    "StreamOrder",
    "TarFiles",
    "TokenFile",
    "decode_member",
]
