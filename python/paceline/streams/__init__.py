"""Training sets that are read in an order of their own: files of records, streams, tokens."""

from .file_shards import FileShards
from .json_lines import JsonLines
from .source import Source
from .stream import Stream

__all__ = ["FileShards", "JsonLines", "Source", "Stream"]
