"""Folders that mosaicml-streaming's MDSWriter has written."""

from __future__ import annotations

import io
import json
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import PacelineError
from .files import Files, Opened, needs
from .remote import Remote, remote
from .source import changed, not_read, unreadable

_REWRITE = "write the folder again with MDSWriter"
_MOST_SAMPLES = 1 << 32  # MDS writes numbers of 32 bits
_NUMBERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")


class MdsFolder(Files):
    """Samples of an MDS folder with index.json, as the dicts that were written. A subfolder is another MdsFolder.

    A file of it has the number of samples, the places of all and of their end as 32 bits each, and the samples: the
    sizes of the columns whose size differs, and the columns. Numbers, text, bytes, JSON, JPEG and PNG need no
    mosaicml-streaming; other columns do.
    """

    def __init__(self, folder: str | Remote) -> None:
        """folder: a path, or an address."""
        there = remote(folder)
        base = (there.given[0] if there else str(folder)).rstrip("/")
        index = f"{base}/index.json"
        try:
            text = there.reading(index, lambda file: file.read()) if there else Path(index).read_text()
            self._shards: list[dict[str, Any]] = json.loads(text)["shards"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise PacelineError(f"{index} is no index of an MDS folder; give a folder of MDSWriter") from error
        if not self._shards or not isinstance(self._shards, list):
            raise PacelineError(f"{index} names no shards; give a folder with samples")
        for shard in self._shards:
            self._check(base, shard, there is None)
        files = [f"{base}/{shard['raw_data']['basename']}" for shard in self._shards]
        super().__init__(there.at(files) if there else files, ())
        self._opened: Opened[BinaryIO] = Opened(self._open)

    def length(self, shard: int) -> int:
        """Returns the number that the index says."""
        return int(self._shards[shard]["samples"])

    def read(self, shard: int, records: Sequence[int]) -> list[Any]:
        file = self._opened.get(shard)
        return [self._sample(shard, file, record) for record in records]

    def _sample(self, shard: int, file: BinaryIO, record: int) -> dict[str, Any]:
        name = f"{self.files[shard]}, sample {record}"
        begin, end = struct.unpack("<II", _part(file, 4 * (1 + record), 8, name))
        if not 4 * (2 + self.length(shard)) <= begin <= end:
            raise unreadable(name, f"it would be bytes {begin} to {end} of the file", _REWRITE)
        data = memoryview(_part(file, begin, end - begin, name))
        columns = self._shards[shard]
        sizes = []
        at = 0
        for size in columns["column_sizes"]:
            if not size and at + 4 <= len(data):
                (size,) = struct.unpack_from("<I", data, at)
                at += 4
            sizes.append(size or 0)
        if at + sum(sizes) != len(data):
            raise unreadable(name, f"it has {len(data)} bytes, and its columns {at + sum(sizes)}", _REWRITE)
        sample = {}
        for column, encoding, size in zip(columns["column_names"], columns["column_encodings"], sizes):
            try:
                sample[column] = _decoded(encoding, bytes(data[at : at + size]))
            except PacelineError:
                raise
            except Exception as error:  # libraries raise all kinds of errors at bytes that are not theirs
                raise not_read(f"{name}, column {column!r}", error, _REWRITE) from error
            at += size
        return sample

    def _open(self, shard: int) -> BinaryIO:
        self.size(shard)
        file = self.using(shard, lambda path: open(path, "rb"))  # noqa: SIM115
        (samples,) = struct.unpack("<I", _part(file, 0, 4, self.files[shard]))
        if samples != self.length(shard):
            raise changed(self.files[shard], self.length(shard), samples)
        return file

    @staticmethod
    def _check(base: str, shard: Any, local: bool) -> None:
        index = f"{base}/index.json"
        wrong = _fault(shard)
        if wrong:
            raise PacelineError(f"{index} is damaged: {wrong}; {_REWRITE}")
        name = shard["raw_data"]["basename"]
        if shard.get("format") != "mds" or shard.get("version") != 2:
            raise PacelineError(f"{index} names {name} of another format than mds; write the folder with MDSWriter")
        if shard.get("zip_data") and not (local and Path(base, name).exists()):
            raise PacelineError(
                f"{base}/{name} is there compressed only; decompress it, or write with compression=None"
            )
        if any(one.partition(":")[0] == "pkl" for one in shard["column_encodings"]):
            raise PacelineError(f"{index} has a column of pickles, which may run any code; write it as json or bytes")


def _fault(shard: Any) -> str:
    """Says what is wrong with a shard in the index; empty: nothing is."""
    if not isinstance(shard, dict):
        return f"a shard is {shard!r:.60}"
    data = shard.get("raw_data")
    name = data.get("basename") if isinstance(data, dict) else None
    if not isinstance(name, str) or not name or name.startswith("/") or ".." in name.split("/"):
        return f"a shard's file is {name!r:.60}"
    if shard.get("format") != "mds":
        return ""
    samples = shard.get("samples")
    if type(samples) is not int or not 0 <= samples < _MOST_SAMPLES:
        return f"{name} has {samples!r:.60} samples"
    lists = [shard.get(f"column_{what}") for what in ("names", "encodings", "sizes")]
    if not all(isinstance(one, list) for one in lists) or len({len(one) for one in lists if one is not None}) > 1:
        return f"the columns of {name} have no names, encodings and sizes"
    names, encodings, sizes = lists
    assert names is not None and encodings is not None and sizes is not None
    if not all(isinstance(one, str) for one in [*names, *encodings]):
        return f"the columns of {name} have names or encodings that are no text"
    if not all(one is None or (type(one) is int and 0 <= one < _MOST_SAMPLES) for one in sizes):
        return f"the columns of {name} have the sizes {sizes!r:.60}"
    return ""


def _part(file: BinaryIO, begin: int, size: int, name: str) -> bytes:
    if begin + size > os.fstat(file.fileno()).st_size:  # memory is not taken for bytes that are not there
        raise unreadable(name, "it ends inside a sample", _REWRITE)
    file.seek(begin)
    data = file.read(size)
    if len(data) != size:
        raise unreadable(name, "it ends inside a sample", _REWRITE)
    return data


def _decoded(encoding: str, data: bytes) -> Any:
    """Returns the value of a column, as mosaicml-streaming's own reader does."""
    if encoding == "bytes":
        return data
    if encoding == "str":
        return data.decode("utf-8")
    if encoding == "int":
        return int.from_bytes(data, "little", signed=True)
    if encoding == "json":
        return json.loads(data)
    if encoding in _NUMBERS:
        return needs("numpy", "numpy", f"an MDS column of {encoding}").frombuffer(data, encoding)[0]
    if encoding in ("jpeg", "png"):
        image = needs("PIL.Image", "Pillow", "an MDS column of images").open(io.BytesIO(data))
        image.load()
        return image
    encodings = needs("streaming.base.format.mds.encodings", "mosaicml-streaming", f"an MDS column of {encoding!r}")
    return encodings.mds_decode(encoding, data)
