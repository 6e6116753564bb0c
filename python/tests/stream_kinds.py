"""Kinds of sources whose records are numbers, for tests and for their programs, which have a copy of this file."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from paceline.streams import FileShards, HuggingFace, JsonLines, Mixture, ParquetFiles, Stream, TarFiles, TokenFile

# The lengths of these are known only after they were read.
UNSIZED = ("function", "webdataset", "hugging face")
KINDS = ("lines", "function", "parquet", "tar", "webdataset", "tokens", "hugging face", "mixture")
LIBRARIES = {"parquet": "pyarrow", "webdataset": "webdataset", "hugging face": "datasets", "mixture": "pyarrow"}


def write(kind: str, folder: Path, shards: list[list[int]]) -> None:
    """Writes shards of these numbers into a new folder."""
    folder.mkdir()
    if kind == "mixture":
        half = len(shards) // 2
        write("parquet", folder / "first", shards[:half])
        write("function", folder / "second", shards[half:])
        return
    for shard, numbers in enumerate(shards):
        if kind == "hugging face" and not numbers:
            continue  # datasets cannot read a Parquet file without rows
        _WRITERS[kind](folder / f"{shard:03}", numbers)


def _lines(path: Path, numbers: list[int]) -> None:
    path.with_suffix(".jsonl").write_text("".join(json.dumps({"number": one}) + "\n" for one in numbers))


def _zipped(path: Path, numbers: list[int]) -> None:
    with gzip.open(path.with_suffix(".gz"), "wt") as file:
        file.writelines(f"{one}\n" for one in numbers)


def _parquet(path: Path, numbers: list[int]) -> None:
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table({"number": pyarrow.array(numbers, pyarrow.int64())})
    parquet.write_table(table, path.with_suffix(".parquet"), row_group_size=10)


def _tar(path: Path, numbers: list[int]) -> None:
    with tarfile.open(path.with_suffix(".tar"), "w") as tar:
        for one in numbers:
            member = tarfile.TarInfo(f"{one:06}.json")
            text = json.dumps({"number": one}).encode()
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text))


def _tokens(path: Path, numbers: list[int]) -> None:
    import numpy

    numpy.save(path.with_suffix(".npy"), numpy.array([*(one for one in numbers for _ in range(2)), 0], "uint32"))


_WRITERS: dict[str, Callable[[Path, list[int]], None]] = {
    "lines": _lines,
    "function": _zipped,
    "parquet": _parquet,
    "tar": _tar,
    "webdataset": _tar,
    "tokens": _tokens,
    "hugging face": _parquet,
}


def unzipped(path: str) -> Iterator[dict[str, int]]:
    with gzip.open(path, "rt") as lines:
        for line in lines:
            yield {"number": int(line)}


def count(path: str) -> int:
    with gzip.open(path, "rt") as lines:
        return sum(1 for _ in lines)


def _web_dataset(path: str) -> Any:
    import webdataset

    return webdataset.WebDataset(path, shardshuffle=False, empty_check=False).decode()


def source(kind: str, folder: str) -> Any:
    if kind == "lines":
        return JsonLines(folder)
    if kind == "function":
        return FileShards(folder, unzipped)
    if kind == "parquet":
        return ParquetFiles(folder)
    if kind == "tar":
        return TarFiles(folder)
    if kind == "webdataset":
        return FileShards(folder, _web_dataset)
    if kind == "tokens":
        return TokenFile(f"{folder}/*.npy", window=2)
    if kind == "hugging face":
        import datasets

        files = sorted(str(file) for file in Path(folder).iterdir())
        return HuggingFace(datasets.load_dataset("parquet", data_files=files, streaming=True, split="train"))
    second = FileShards(f"{folder}/second", unzipped, length=count)
    return Mixture({"first": (ParquetFiles(f"{folder}/first"), 1), "second": (second, 2)})


def number(kind: str, record: Any) -> int:
    if kind == "tokens":
        return int(record[0][0])
    return int(record["json"]["number"] if kind in ("tar", "webdataset") else record["number"])


def whole_order(kind: str, folder: str, passes: int, options: dict[str, int]) -> list[int]:
    """The numbers in the order in which a job of seed 1 trains them."""
    stream = Stream(source(kind, folder), **options)
    stream.seed(1)
    found = []
    for one in range(passes):
        place = 0
        while records := stream.records(one, place, place + 512):
            place += len(records)
            found += [number(kind, record) for record in records]
    return found
