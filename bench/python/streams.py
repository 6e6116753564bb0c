"""Records per second that loader processes read: a stream beside what people use for the same files.

Each turn reads the same files in each way, one after the other, with as many processes. The ways of other packages
shuffle as they advise to; a plain loop over the files does not shuffle at all. Packages that are missing are left out.
"""

from __future__ import annotations

import argparse
import glob
import importlib.util
import io
import json
import math
import os
import random
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
from paceline.loading import Load, make_loader  # noqa: E402
from paceline.streams import (  # noqa: E402
    FileShards,
    HuggingFace,
    JsonLines,
    ParquetFiles,
    Stream,
    TarFiles,
    TokenFile,
)

BATCH = 32


def has(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def letters(record: dict[str, Any]) -> torch.Tensor:
    """A sample as a tokenizer that costs little makes it."""
    return torch.tensor([ord(letter) for letter in record["text"][:256]])


def of_bytes(record: dict[str, Any]) -> torch.Tensor:
    return torch.frombuffer(bytearray(record["bin"][:4096]), dtype=torch.uint8)


def lines_of(path: str) -> Iterator[dict[str, Any]]:
    with open(path) as lines:
        for line in lines:
            yield json.loads(line)


class Lines(IterableDataset):  # type: ignore[type-arg]
    """The usual loop: each process takes files of its own."""

    def __init__(self, folder: Path) -> None:
        self.files = sorted(glob.glob(str(folder / "*.jsonl")))

    def __iter__(self) -> Iterator[torch.Tensor]:
        worker = get_worker_info()
        files = self.files if worker is None else self.files[worker.id :: worker.num_workers]
        for file in files:
            yield from map(letters, lines_of(file))


class Windows(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """nanoGPT's batches: windows of a mapped file."""

    def __init__(self, path: Path, window: int) -> None:
        import numpy

        self.tokens = numpy.memmap(path, "uint16", "r")
        self.window = window

    def __len__(self) -> int:
        return (len(self.tokens) - 1) // self.window

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        begin = index * self.window
        all_of_it = torch.from_numpy(self.tokens[begin : begin + self.window + 1].astype("int64"))
        return all_of_it[:-1], all_of_it[1:]


def write(folder: Path, files: int, records: int) -> None:
    draw = random.Random(1)
    number = 0
    for file in range(files):
        rows = []
        for _ in range(records):
            rows.append({"number": number, "text": " ".join(str(draw.random()) for _ in range(20))})
            number += 1
        (folder / f"{file:03}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        with tarfile.open(folder / f"{file:03}.tar", "w") as tar:
            for row in rows[: records // 4]:
                data = draw.randbytes(20_000)
                header = tarfile.TarInfo(f"{row['number']:08}.bin")
                header.size = len(data)
                tar.addfile(header, io.BytesIO(data))
        if has("pyarrow"):
            import pyarrow
            from pyarrow import parquet

            parquet.write_table(pyarrow.Table.from_pylist(rows), folder / f"{file:03}.parquet", row_group_size=1000)
    if has("numpy"):
        import numpy

        numpy.random.default_rng(1).integers(0, 50_000, 32 << 20).astype("uint16").tofile(folder / "tokens.bin")


def rate_of_loader(loader: Any, most: int, count: Callable[[Any], int] = len) -> float:
    began, read = time.perf_counter(), 0
    for batch in loader:
        read += count(batch)
        if read >= most:
            break
    return read / (time.perf_counter() - began)


def rate_of_stream(stream: Stream, processes: int, most: int) -> float:
    began, read = time.perf_counter(), 0
    # A name of its own, so that the readers of one turn know nothing of another.
    host = f"{os.getpid()}-{time.monotonic_ns()}"
    loader = make_loader(stream, None, {"num_workers": processes} if processes else {}, seed=1, host=host)
    loads = [Load(tuple(range(begin, begin + BATCH)), 1) for begin in range(0, most - most % BATCH, BATCH)]
    for at, load in enumerate(loads):
        loader.expect(loads[at : at + 2 * processes + 1])
        read += loader.get(load).samples
    rate = read / (time.perf_counter() - began)
    loader.close()
    return rate


def ways(folder: Path, processes: int, records: int) -> dict[str, list[tuple[str, Callable[[], float]]]]:
    def plain(data: Any, shuffle: bool = False, most: int = records, count: Callable[[Any], int] = len) -> float:
        return rate_of_loader(DataLoader(data, BATCH, shuffle=shuffle, num_workers=processes), most, count)

    def stream(source: Any, function: Any = None, most: int = records, draws: bool = False) -> float:
        return rate_of_stream(Stream(source, map=function, draws=draws), processes, most)

    jsonl, tars = str(folder / "*.jsonl"), sorted(glob.glob(str(folder / "*.tar")))
    few = records // 4
    found = {
        "JSON lines": [
            ("a loop over the files", lambda: plain(Lines(folder))),
            ("Stream(JsonLines)", lambda: stream(JsonLines(jsonl), letters)),
            ("the same, a seed a record", lambda: stream(JsonLines(jsonl), letters, draws=True)),
            ("Stream(FileShards)", lambda: stream(FileShards(jsonl, lines_of), letters)),
        ],
    }
    if has("numpy"):
        windows = (32 << 20) // 1024 - 1
        path = folder / "tokens.bin"
        found["windows of 1,024 tokens"] = [
            ("a map-style data set", lambda: plain(Windows(path, 1024), True, windows, lambda pair: len(pair[0]))),
            ("Stream(TokenFile)", lambda: stream(TokenFile(path, 1024), None, windows)),
        ]
    if has("webdataset"):
        import webdataset

        def pipeline() -> Any:
            return webdataset.WebDataset(tars, shardshuffle=len(tars), seed=1).shuffle(1000).map(of_bytes)

        found["tar files, 20 kB a record"] = [
            ("webdataset", lambda: plain(pipeline(), most=few)),
            ("Stream(TarFiles)", lambda: stream(TarFiles(tars, decode=None), of_bytes, few)),
        ]
    if has("datasets") and has("pyarrow"):
        import datasets

        parquet = sorted(glob.glob(str(folder / "*.parquet")))

        def rows() -> Any:
            return datasets.load_dataset("parquet", data_files=parquet, streaming=True, split="train")

        def mapped() -> Any:
            return (
                rows().shuffle(seed=1, buffer_size=1000).map(lambda row: {"x": letters(row)}, remove_columns=["text"])
            )

        found["Parquet"] = [
            ("datasets, streaming", lambda: plain(mapped(), count=lambda batch: len(batch["number"]))),
            ("Stream(ParquetFiles)", lambda: stream(ParquetFiles(parquet), letters)),
            ("Stream(HuggingFace)", lambda: stream(HuggingFace(rows()), letters)),
        ]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--records", type=int, default=4000, help="of each file")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, asked.files, asked.records)
        all_ways = ways(folder, asked.processes, asked.files * asked.records)
        print(f"{asked.processes} loader processes, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
        for kind, of_kind in all_ways.items():
            turns = [[measure() for _, measure in of_kind] for _ in range(asked.turns)]
            for at, (way, _) in enumerate(of_kind):
                rates = [turn[at] for turn in turns]
                ratios = [turn[at] / turn[0] for turn in turns]
                mean = sum(ratios) / len(ratios)
                error = math.sqrt(sum((one - mean) ** 2 for one in ratios) / max(1, len(ratios) - 1) / len(ratios))
                print(f"{kind:26} {way:26} {sum(rates) / len(rates):9,.0f}/s  {mean:.2f} ± {error:.2f}", flush=True)


if __name__ == "__main__":
    main()
