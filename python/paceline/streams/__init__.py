"""Training sets that are read in an order of their own: files of records, streams, tokens."""

from .file_shards import FileShards
from .json_lines import JsonLines
from .parquet import ParquetFiles
from .source import Source, UnsizedSource
from .stream import Stream
from .tar_files import TarFiles

__all__ = ["FileShards", "JsonLines", "ParquetFiles", "Source", "Stream", "TarFiles", "UnsizedSource"]
