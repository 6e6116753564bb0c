"""Tar files in the layout of WebDataset: neighbours with one name up to the first dot are a sample."""

from __future__ import annotations

import functools
import json
import re
import tarfile
from collections.abc import Sequence
from typing import Any, BinaryIO, Callable

from ..errors import PacelineError, name_sample
from .decoding import decode_member
from .files import Files, Opened, Paths, bytes_at, refuse_compressed
from .source import changed, not_read, unreadable

Members = list[tuple[str, int, int]]  # a sample's: ending, place in the file, bytes

_NAME = re.compile(r"^((?:.*/|)[^.]+)[.]([^/]*)$")
_END = 512  # zeros
_REWRITE = "write the file again, without --sparse, or leave it out"


class TarFiles(Files):
    """Samples of tar files as dicts: __key__, __url__, and one value for each ending.

    `decode`: function of an ending and the bytes that makes the value; None leaves bytes. Without it, txt, json, cls,
    npy, pt and images become what webdataset's decode("pil") makes of them. The first use of a file reads the headers
    of its members once a host, and seeks over their data.
    """

    def __init__(self, files: Paths, decode: Callable[[str, bytes], Any] | None = decode_member) -> None:
        super().__init__(files, (".tar",))
        refuse_compressed([file[:-3] + "gz" if file.endswith(".tgz") else file for file in self.files])
        self._decode = decode
        self._indices: Opened[list[tuple[str, Members]]] = Opened(self._index, most=1024, keep=True)
        self._opened: Opened[BinaryIO] = Opened(self._open)

    def length(self, shard: int) -> int:
        return len(self._indices.get(shard))

    def read(self, shard: int, records: Sequence[int]) -> list[Any]:
        index = self._indices.get(shard)
        file = self._opened.get(shard)
        return [self._sample(shard, file, *index[record]) for record in records if record < len(index)]

    def _sample(self, shard: int, file: BinaryIO, key: str, members: Members) -> dict[str, Any]:
        name = self.files[shard]
        sample: dict[str, Any] = {"__key__": key, "__url__": name}
        for ending, begin, size in members:
            data = bytes_at(file, begin, size)
            if len(data) != size:
                raise changed(name, self.length(shard), 0)
            try:
                sample[ending] = data if self._decode is None else self._decode(ending, data)
            except PacelineError:
                raise
            except Exception as error:
                if self._decode is not decode_member:
                    name_sample(error, functools.partial("{}, {}.{}".format, name, key, ending))
                    raise
                way_out = "repair it, or give decode= a function that does without it"
                raise not_read(f"{name}, {key}.{ending}", error, way_out) from error
        return sample

    def _open(self, shard: int) -> BinaryIO:
        self.size(shard)
        return self.using(shard, lambda path: open(path, "rb"))

    def _index(self, shard: int) -> list[tuple[str, Members]]:
        index = self.kept_index(shard, "tar 1", lambda: json.dumps(self._find_samples(shard)).encode())
        return [
            (key, [(ending, place, size) for ending, place, size in members]) for key, members in json.loads(index)
        ]

    def _find_samples(self, shard: int) -> list[tuple[str, Members]]:
        name, size = self.files[shard], self.size(shard)
        samples: list[tuple[str, Members]] = []
        try:
            with self._open(shard) as file, tarfile.open(fileobj=file, mode="r:") as tar:
                for member in tar:
                    found = _NAME.match(member.name)
                    if not member.isreg() or found is None:
                        continue
                    key, ending = found[1], found[2].lower()
                    if not samples or samples[-1][0] != key:
                        samples.append((key, []))
                    if any(ending == other for other, _, _ in samples[-1][1]):
                        raise tarfile.ReadError(f"{member.name} is in it twice")
                    if member.issparse():
                        raise tarfile.ReadError(f"{member.name} was written without its holes")
                    samples[-1][1].append((ending, member.offset_data, member.size))
                    tar.members = []  # type: ignore[attr-defined]  # a kilobyte each
                if file.seek(tar.offset) + _END > size or any(file.read(_END)):
                    raise tarfile.ReadError("it has no end mark, so a part is missing")
        except (tarfile.TarError, EOFError) as error:
            raise unreadable(name, error, _REWRITE) from error
        return samples
