"""MDS folders and token files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from stream_files import everything, in_child, library, refused

from paceline.streams import MdsFolder, Stream, TokenFile

# MDS


def write_mds(folder: Path, records: int = 300, **more) -> list[dict]:
    streaming = library("streaming")
    numpy = library("numpy")
    columns = {
        "id": "int",
        "text": "str",
        "half": "float16",
        "json": "json",
        "raw": "bytes",
        "array": "ndarray",
        **more,
    }
    written = []
    with streaming.MDSWriter(out=str(folder), columns=columns, size_limit=5000) as out:
        for record in range(records):
            sample = {
                "id": record - 5,
                "text": "ä" * (record % 9),
                "half": numpy.float16(record / 8),
                "json": {"record": record},
                "raw": bytes([record % 256]),
                "array": numpy.arange(record % 5 + 1),
            }
            if "image" in more:
                sample["image"] = library("PIL.Image").new("RGB", (4, 4), (record % 256, 0, 0))
            out.write(sample)
            written.append(sample)
    return written


@pytest.mark.parametrize("more", [{}, {"image": "png"}], ids=["plain", "images"])
def test_mds_samples_are_those_written(tmp_path: Path, more: dict) -> None:
    written = write_mds(tmp_path / "mds", **more)
    source = MdsFolder(str(tmp_path / "mds"))
    assert len(source.shards()) > 3
    ours = everything(source)
    assert len(ours) == len(written)
    for our, their in zip(ours, written):
        assert set(our) == set(their)
        for name, value in our.items():
            if name == "image":
                assert value.tobytes() == their[name].tobytes()
            else:
                assert type(value) is type(their[name]) and str(value) == str(their[name])
    in_child(source)
    assert sorted(one["id"] for one in Stream(source).epoch()) == [one["id"] for one in written]


def test_what_is_no_mds_folder_is_named(tmp_path: Path) -> None:
    with refused("index.json is no index of an MDS folder; "):
        MdsFolder(str(tmp_path))
    (tmp_path / "index.json").write_text('{"shards": []}')
    with refused("index.json names no shards; "):
        MdsFolder(str(tmp_path))


def test_a_truncated_mds_file_is_named(tmp_path: Path) -> None:
    write_mds(tmp_path / "mds")
    file = tmp_path / "mds" / "shard.00000.mds"
    os.truncate(file, file.stat().st_size - 10)
    source = MdsFolder(str(tmp_path / "mds"))
    with refused("shard.00000.mds cannot be read: it ends inside a sample; write the folder again"):
        source.read(0, [source.length(0) - 1])


def test_an_index_that_says_another_number_is_named(tmp_path: Path) -> None:
    write_mds(tmp_path / "mds")
    index = json.loads((tmp_path / "mds" / "index.json").read_text())
    index["shards"][0]["samples"] += 1
    (tmp_path / "mds" / "index.json").write_text(json.dumps(index))
    with refused("shard.00000.mds has [0-9]+ records now, and had [0-9]+; "):
        MdsFolder(str(tmp_path / "mds")).read(0, [0])


# Token files


def write_tokens(file: Path, tokens: int, dtype: str = "uint16") -> Path:
    library("numpy").arange(tokens).astype(dtype).tofile(file)
    return file


def test_windows_are_those_of_the_tokens(tmp_path: Path) -> None:
    source = TokenFile(write_tokens(tmp_path / "a.bin", 10_001), 2)
    samples = everything(source)
    assert len(source.shards()) == 2 and len(samples) == 5000
    for number, (x, y) in enumerate(samples):
        assert x.tolist() == [2 * number, 2 * number + 1] and y.tolist() == [2 * number + 1, 2 * number + 2]
    assert x.dtype == torch.int64
    in_child(source)


@pytest.mark.parametrize(
    ("tokens", "stride", "targets", "windows"),
    [(12, None, True, 2), (12, None, False, 3), (12, 1, True, 8), (5, 1, True, 1)],
)
def test_the_last_window_is_whole(tmp_path: Path, tokens: int, stride, targets: bool, windows: int) -> None:
    source = TokenFile(write_tokens(tmp_path / "a.bin", tokens), 4, stride=stride, targets=targets)
    samples = everything(source)
    assert len(samples) == windows
    if not targets:
        assert [one.tolist() for one in samples] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_several_files_and_an_empty_one_are_windows_of_each(tmp_path: Path) -> None:
    numpy = library("numpy")
    write_tokens(tmp_path / "a.bin", 9)
    write_tokens(tmp_path / "b.bin", 0)
    numpy.save(tmp_path / "c.npy", numpy.arange(100, 109, dtype="int32"))
    samples = everything(TokenFile(tmp_path, 4))
    assert [x.tolist() for x, _ in samples] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [100, 101, 102, 103],
        [104, 105, 106, 107],
    ]


def test_megatrons_index_says_the_type(tmp_path: Path) -> None:
    write_tokens(tmp_path / "a.bin", 9, "int32")
    head = b"MMIDIDX\x00\x00" + (1).to_bytes(8, "little") + bytes([4])
    (tmp_path / "a.idx").write_bytes(head + bytes(40))
    assert [x.tolist() for x, _ in everything(TokenFile(tmp_path / "a.bin", 4))] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    (tmp_path / "a.idx").write_bytes(head[:-1] + bytes([77]))
    with refused("a.idx cannot be read: version 1 with type 77 is unknown; "):
        TokenFile(tmp_path / "a.bin", 4)
    (tmp_path / "a.idx").write_bytes(b"no index")
    with refused("a.idx cannot be read: it is no index of Megatron's; "):
        TokenFile(tmp_path / "a.bin", 4)


def test_a_large_file_costs_nothing_to_open(tmp_path: Path) -> None:
    library("numpy")
    with open(tmp_path / "a.bin", "wb") as file:
        file.truncate(4 * 10**9)  # a hole: 2 * 10^9 tokens that take no space
    stream = Stream(TokenFile(tmp_path / "a.bin", 1024))
    assert len(stream) == (2 * 10**9 - 1) // 1024
    assert len(stream.records(3, 1_000_000, 1_000_032)) == 32


@pytest.mark.parametrize(
    ("tokens", "options", "text"),
    [
        (4, {"window": 4}, "a.bin has no window of 5 tokens; write a smaller window="),
        (9, {"window": 0}, "window = 0 is no number of tokens; write 1 or more"),
        (9, {"window": 1, "stride": 0}, "stride = 0 is no number of tokens; write 1 or more"),
        (9, {"window": 1, "dtype": "uint64"}, "a.bin cannot be read: .*; write dtype= of its 18 bytes"),
        (9, {"window": 1, "dtype": "float16"}, "a.bin has float16 in 1 dimensions; write"),
    ],
)
def test_bad_tokens_are_refused(tmp_path: Path, tokens: int, options: dict, text: str) -> None:
    write_tokens(tmp_path / "a.bin", tokens)
    with refused(text):
        TokenFile(tmp_path / "a.bin", **options)


def test_a_token_file_that_shrank_is_named_and_its_end_is_not_touched(tmp_path: Path) -> None:
    """A process that touches what is no longer in a mapped file dies of SIGBUS."""
    numpy = library("numpy")
    numpy.save(tmp_path / "tokens.npy", numpy.arange(100_000, dtype="uint32"))
    source = TokenFile(tmp_path / "tokens.npy", window=10)
    assert source.read(0, [0])[0][0][0] == 0
    os.truncate(tmp_path / "tokens.npy", 10_000)
    with refused("tokens.npy has 10000 bytes now, and had 400128; leave shards unchanged"):
        source.read(2, [1000])
