"""Training sets that are streams: sources of shards, and the one order in which a job reads them."""

from .decoding import decode_member
from .file_shards import FileShards, Shards
from .hugging_face import HuggingFace
from .json_lines import JsonLines
from .mds import MdsFolder
from .mixture import Mixture
from .parquet import ParquetFiles
from .remote import Remote
from .source import Source, UnsizedSource
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
    "Remote",
    "Shards",
    "Source",
    "Stream",
    "TarFiles",
    "TokenFile",
    "UnsizedSource",
    "decode_member",
]
