"""Records per second that loader processes read: a stream beside what people use for the same files.

Each turn reads the same files in each way, one after the other, with as many processes. The ways of other packages
shuffle as they advise to; a plain loop over the files does not shuffle at all. Packages that are missing are left out.
"""

from __future__ import annotations

import argparse
import glob
import importlib.util
import io
import itertools
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
WINDOW = 1024  # tokens


def has(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def letters(record: dict[str, Any]) -> torch.Tensor:
    """A sample as a tokenizer that costs little makes it."""
    return torch.tensor([ord(letter) for letter in record["text"][:256]])


def pixels(record: dict[str, Any]) -> tuple[torch.Tensor, int]:
    import numpy

    return torch.from_numpy(numpy.array(record["jpg"])).permute(2, 0, 1), record["cls"]


class Packed(IterableDataset):  # type: ignore[type-arg]
    """The usual loop that packs: documents one behind the other, cut into windows."""

    def __init__(self, folder: Path) -> None:
        self.lines = Lines(folder)

    def __iter__(self) -> Iterator[torch.Tensor]:
        kept: list[torch.Tensor] = []
        have = 0
        for tokens in self.lines:
            kept.append(tokens)
            have += len(tokens)
            if have >= WINDOW:
                row = torch.cat(kept)
                yield from row[: have - have % WINDOW].view(-1, WINDOW)
                kept, have = [row[have - have % WINDOW :]], have % WINDOW


def packed(samples: list[torch.Tensor]) -> list[torch.Tensor]:
    """The samples of one batch as windows, the last one with zeros behind its end."""
    row = torch.cat(samples)
    return list(torch.nn.functional.pad(row, (0, -len(row) % WINDOW)).view(-1, WINDOW))


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


def words_of(draw: random.Random) -> Callable[[], str]:
    """Makes texts of made-up words, of which some are frequent, as in a language."""
    words = ["".join(draw.choices("etaoinshrdlucm", k=draw.randint(2, 9))) for _ in range(20_000)]
    weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(len(words))))
    return lambda: " ".join(draw.choices(words, cum_weights=weights, k=draw.randint(20, 120)))


def write_texts(folder: Path, files: int, records: int) -> None:
    """Texts of different lengths, as Parquet, and the tokenizer that was trained on them."""
    import pyarrow
    import tokenizers
    from pyarrow import parquet

    text = words_of(random.Random(2))
    texts = [[text() for _ in range(records)] for _ in range(files)]
    for file, of_file in enumerate(texts):
        parquet.write_table(pyarrow.table({"text": of_file}), folder / f"{file:03}.parquet", row_group_size=1000)
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="?"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel()
    tokenizer.train_from_iterator(
        texts[0], tokenizers.trainers.BpeTrainer(vocab_size=8000, special_tokens=["?"], show_progress=False)
    )
    tokenizer.enable_truncation(128)
    tokenizer.enable_padding(length=128)
    tokenizer.save(str(folder / "tokenizer.json"))


def write_images(folder: Path, files: int, records: int) -> None:
    """JPEGs of 224 × 224 pixels, about as large as photographs of that size."""
    import numpy
    from PIL import Image

    draw = numpy.random.default_rng(1)
    for file in range(files):
        with tarfile.open(folder / f"{file:03}.tar", "w") as tar:
            for record in range(records):
                coarse = Image.fromarray(draw.integers(0, 256, (28, 28, 3), dtype="uint8"))
                image = numpy.asarray(coarse.resize((224, 224), Image.Resampling.BICUBIC)).astype("int16")
                noisy = (image + draw.integers(-12, 13, image.shape)).clip(0, 255).astype("uint8")
                encoded = io.BytesIO()
                Image.fromarray(noisy).save(encoded, "JPEG", quality=85)
                for ending, data in (("jpg", encoded.getvalue()), ("cls", b"%d" % (record % 10))):
                    header = tarfile.TarInfo(f"{file:03}{record:05}.{ending}")
                    header.size = len(data)
                    tar.addfile(header, io.BytesIO(data))


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


def rate_of_loader(loader: Any, most: int, count: Callable[[Any], float] = len) -> float:
    began, read = time.perf_counter(), 0.0
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
        loader.get(load)
        read += len(load.samples)
    rate = read / (time.perf_counter() - began)
    loader.close()
    return rate


Ways = dict[str, list[tuple[str, Callable[[], float]]]]


class Measured:
    """Ways to read the files of a folder, each with as many loader processes."""

    def __init__(self, folder: Path, processes: int, files: int, records: int) -> None:
        """records: of each file."""
        self.folder, self.processes = folder, processes
        self.files, self.of_file, self.records = files, records, files * records

    def plain(
        self,
        data: Any,
        shuffle: bool = False,
        most: int | None = None,
        count: Callable[[Any], float] = len,
        batch: int = BATCH,
    ) -> float:
        loader = DataLoader(data, batch, shuffle=shuffle, num_workers=self.processes)
        return rate_of_loader(loader, self.records if most is None else most, count)

    def stream(
        self, source: Any, function: Any = None, most: int | None = None, draws: bool = False, pack: Any = None
    ) -> float:
        stream = Stream(source, map=function, pack=pack, draws=draws)
        return rate_of_stream(stream, self.processes, self.records if most is None else most)

    def of_lines(self) -> Ways:
        jsonl = str(self.folder / "*.jsonl")
        return {
            "JSON lines": [
                ("a loop over the files", lambda: self.plain(Lines(self.folder))),
                ("Stream(JsonLines)", lambda: self.stream(JsonLines(jsonl), letters)),
                ("the same, a seed a record", lambda: self.stream(JsonLines(jsonl), letters, draws=True)),
                ("Stream(FileShards)", lambda: self.stream(FileShards(jsonl, lines_of), letters)),
            ],
        }

    def of_packed(self) -> Ways:
        """Tokens of the plain loop's windows count as parts of a text of the mean length."""
        tokens = sum(map(len, Lines(self.folder)))
        each = tokens / self.records

        def texts_of(batch: torch.Tensor) -> float:
            return batch.numel() / each

        jsonl = str(self.folder / "*.jsonl")
        windows = round(BATCH * each / WINDOW)  # a batch then has as many tokens
        whole = self.records - 2 * BATCH  # the loop leaves out the last window of each process
        return {
            "texts packed to windows": [
                ("a loop over the files", lambda: self.plain(Packed(self.folder), False, whole, texts_of, windows)),
                ("Stream(JsonLines, pack=)", lambda: self.stream(JsonLines(jsonl), letters, pack=packed)),
            ],
        }

    def of_windows(self) -> Ways:
        windows = (32 << 20) // WINDOW - 1
        path = self.folder / "tokens.bin"
        return {
            "windows of 1,024 tokens": [
                (
                    "a map-style data set",
                    lambda: self.plain(Windows(path, WINDOW), True, windows, lambda pair: len(pair[0])),
                ),
                ("Stream(TokenFile)", lambda: self.stream(TokenFile(path, WINDOW), None, windows)),
            ],
        }

    def of_tars(self) -> Ways:
        import webdataset

        tars, few = sorted(glob.glob(str(self.folder / "*.tar"))), self.records // 4

        def pipeline() -> Any:
            return webdataset.WebDataset(tars, shardshuffle=len(tars), seed=1).shuffle(1000).map(of_bytes)

        return {
            "tar files, 20 kB a record": [
                ("webdataset", lambda: self.plain(pipeline(), most=few)),
                ("Stream(TarFiles)", lambda: self.stream(TarFiles(tars, decode=None), of_bytes, few)),
            ],
        }

    def of_images(self) -> Ways:
        import webdataset

        folder = self.folder / "images"
        folder.mkdir()
        few = self.of_file // 20
        write_images(folder, self.files, few)
        tars = sorted(glob.glob(str(folder / "*.tar")))

        def pipeline() -> Any:
            decoded = webdataset.WebDataset(tars, shardshuffle=len(tars), seed=1).shuffle(1000).decode("pil")
            return decoded.map(pixels)

        def images(batch: Any) -> int:
            return len(batch[1])

        return {
            "tar files, JPEGs decoded": [
                ("webdataset", lambda: self.plain(pipeline(), most=self.files * few, count=images)),
                ("Stream(TarFiles)", lambda: self.stream(TarFiles(tars), pixels, self.files * few)),
            ],
        }

    def of_parquet(self) -> Ways:
        import datasets

        parquet = sorted(glob.glob(str(self.folder / "*.parquet")))

        def rows() -> Any:
            return datasets.load_dataset("parquet", data_files=parquet, streaming=True, split="train")

        def mapped() -> Any:
            return (
                rows().shuffle(seed=1, buffer_size=1000).map(lambda row: {"x": letters(row)}, remove_columns=["text"])
            )

        return {
            "Parquet": [
                ("datasets, streaming", lambda: self.plain(mapped(), count=lambda batch: len(batch["number"]))),
                ("Stream(ParquetFiles)", lambda: self.stream(ParquetFiles(parquet), letters)),
                ("Stream(HuggingFace)", lambda: self.stream(HuggingFace(rows()), letters)),
            ],
        }

    def of_texts(self) -> Ways:
        import datasets
        import tokenizers

        folder = self.folder / "texts"
        folder.mkdir()
        few = self.of_file // 4
        write_texts(folder, self.files, few)
        parquet = sorted(glob.glob(str(folder / "*.parquet")))
        tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))

        def tokens(row: dict[str, Any]) -> torch.Tensor:
            return torch.tensor(tokenizer.encode(row["text"]).ids)

        def rows() -> Any:
            return datasets.load_dataset("parquet", data_files=parquet, streaming=True, split="train")

        def one_by_one() -> Any:
            return (
                rows().shuffle(seed=1, buffer_size=1000).map(lambda row: {"x": tokens(row)}, remove_columns=["text"])
            )

        def batched() -> Any:
            def of_all(some: dict[str, Any]) -> dict[str, Any]:
                return {"x": [one.ids for one in tokenizer.encode_batch(some["text"])]}

            shuffled = rows().shuffle(seed=1, buffer_size=1000)
            return shuffled.map(of_all, batched=True, remove_columns=["text"]).with_format("torch")

        def texts(batch: Any) -> int:
            return len(batch["x"])

        count = self.files * few
        return {
            "Parquet, a BPE tokenizer": [
                ("datasets, batched map", lambda: self.plain(batched(), most=count, count=texts)),
                ("datasets, map", lambda: self.plain(one_by_one(), most=count, count=texts)),
                ("Stream(ParquetFiles)", lambda: self.stream(ParquetFiles(parquet), tokens, count)),
            ],
        }

    def kinds(self) -> dict[str, tuple[Callable[[], Ways], tuple[str, ...]]]:
        """How the ways of a kind are made, by its short name, and which packages they need."""
        return {
            "lines": (self.of_lines, ()),
            "packed": (self.of_packed, ()),
            "windows": (self.of_windows, ("numpy",)),
            "tars": (self.of_tars, ("webdataset",)),
            "images": (self.of_images, ("webdataset", "PIL", "numpy")),
            "parquet": (self.of_parquet, ("datasets", "pyarrow")),
            "texts": (self.of_texts, ("datasets", "pyarrow", "tokenizers")),
        }


def report(kind: str, of_kind: list[tuple[str, Callable[[], float]]], turns: int) -> None:
    measured = [[measure() for _, measure in of_kind] for _ in range(turns)]
    for at, (way, _) in enumerate(of_kind):
        rates = [turn[at] for turn in measured]
        ratios = [turn[at] / turn[0] for turn in measured]
        mean = sum(ratios) / len(ratios)
        error = math.sqrt(sum((one - mean) ** 2 for one in ratios) / max(1, len(ratios) - 1) / len(ratios))
        print(f"{kind:26} {way:26} {sum(rates) / len(rates):9,.0f}/s  {mean:.2f} ± {error:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--records", type=int, default=4000, help="of each file")
    parser.add_argument("--only", help="some kinds, with commas: lines,packed,windows,tars,images,parquet,texts")
    asked = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the loader processes are as many as the processors
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, asked.files, asked.records)
        kinds = Measured(folder, asked.processes, asked.files, asked.records).kinds()
        wanted = asked.only.split(",") if asked.only else list(kinds)
        print(f"{asked.processes} loader processes, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
        for one in wanted:
            make, packages = kinds[one]
            if all(map(has, packages)):
                for kind, of_kind in make().items():
                    report(kind, of_kind, asked.turns)


if __name__ == "__main__":
    main()
