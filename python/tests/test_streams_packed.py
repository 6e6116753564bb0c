"""MDS folders and token files."""

from __future__ import annotations

import json
import os
import random
import struct
from pathlib import Path

import pytest
import torch
from stream_files import everything, in_child, library, refused

from paceline.errors import PacelineError
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
    with refused("shard.00000.mds, sample [0-9]+ cannot be read: it ends inside a sample; write the folder again"):
        source.read(0, [source.length(0) - 1])


def test_an_index_that_says_another_number_is_named(tmp_path: Path) -> None:
    write_mds(tmp_path / "mds")
    index = json.loads((tmp_path / "mds" / "index.json").read_text())
    index["shards"][0]["samples"] += 1
    (tmp_path / "mds" / "index.json").write_text(json.dumps(index))
    with refused("shard.00000.mds has [0-9]+ records now, and had [0-9]+; "):
        MdsFolder(str(tmp_path / "mds")).read(0, [0])


# An MDS folder by hand, for what a writer would not write: columns "number" of 2 bytes and "text" of any size.


def mds_by_hand(folder: Path, shard: bytes | None = None, **index) -> MdsFolder:
    samples = [struct.pack("<I", len(text)) + struct.pack("<h", number) + text for number, text in enumerate(TEXTS)]
    if shard is None:
        ends = [4 * (2 + len(samples)) + sum(map(len, samples[:count])) for count in range(len(samples) + 1)]
        shard = struct.pack(f"<{2 + len(samples)}I", len(samples), *ends) + b"".join(samples)
    about = {
        "column_names": ["number", "text"],
        "column_encodings": ["int16", "str"],
        "column_sizes": [2, None],
        "compression": None,
        "format": "mds",
        "raw_data": {"basename": "shard.00000.mds", "bytes": len(shard), "hashes": {}},
        "samples": len(samples),
        "version": 2,
        "zip_data": None,
    }
    folder.mkdir(exist_ok=True)
    (folder / "shard.00000.mds").write_bytes(shard)
    (folder / "index.json").write_text(json.dumps({"shards": [{**about, **index}], "version": 2}))
    return MdsFolder(str(folder))


TEXTS = [b"", b"a", b"four", "ä".encode() * 30]


def test_an_mds_folder_by_hand_is_read(tmp_path: Path) -> None:
    source = mds_by_hand(tmp_path / "mds")
    assert [one["text"] for one in source.read(0, range(4))] == [text.decode() for text in TEXTS]


@pytest.mark.parametrize(
    ("index", "says"),
    [
        ({"samples": -1}, "shard.00000.mds has -1 samples"),
        ({"samples": 10**30}, "has 1000000000000000000000000000000 samples"),
        ({"samples": "4"}, "has '4' samples"),
        ({"samples": None}, "has None samples"),
        ({"raw_data": None}, "a shard's file is None"),
        ({"raw_data": {"basename": "../../secret"}}, "a shard's file is '../../secret'"),
        ({"raw_data": {"basename": "/etc/passwd"}}, "a shard's file is '/etc/passwd'"),
        ({"column_names": ["number"]}, "the columns of shard.00000.mds have no names, encodings and sizes"),
        ({"column_sizes": None}, "the columns of shard.00000.mds have no names, encodings and sizes"),
        ({"column_sizes": [-2, None]}, r"the columns of shard.00000.mds have the sizes \[-2, None\]"),
        ({"column_sizes": [2.5, None]}, "the columns of shard.00000.mds have the sizes"),
        ({"column_encodings": ["int16", 7]}, "have names or encodings that are no text"),
    ],
)
def test_an_index_that_says_what_cannot_be_is_damaged(tmp_path: Path, index: dict, says: str) -> None:
    with refused(f"index.json is damaged: .*{says}.*; write the folder again with MDSWriter"):
        mds_by_hand(tmp_path / "mds", **index)


@pytest.mark.parametrize("encoding", ["pkl", "pkl:anything"])
def test_a_column_of_pickles_is_refused(tmp_path: Path, encoding: str) -> None:
    with refused("has a column of pickles, which may run any code; write it as json or bytes"):
        mds_by_hand(tmp_path / "mds", column_encodings=["int16", encoding])


@pytest.mark.parametrize("text", ["[" * 100_000, '{"shards": [7]}', '{"shards": {"a": 1}}', "7", "\0"])
def test_an_index_of_another_shape_is_named(tmp_path: Path, text: str) -> None:
    mds_by_hand(tmp_path / "mds")
    (tmp_path / "mds" / "index.json").write_text(text)
    with refused("index.json (is no index of an MDS folder|is damaged: a shard is 7|names no shards); "):
        MdsFolder(str(tmp_path / "mds"))


@pytest.mark.parametrize(
    ("at", "value", "says"),
    [
        (4, 1 << 31, "it would be bytes 2147483648 to 30 of the file"),
        (8, 1 << 31, "it ends inside a sample"),  # two gigabytes are not read
        (4, 0, "it would be bytes 0 to 30 of the file"),
        (8, 24, "it has 0 bytes, and its columns 2"),
        (8, 28, "it has 4 bytes, and its columns 6"),
        (24, 1 << 31, "it has 6 bytes, and its columns 2147483654"),
        (24, 1, "it has 6 bytes, and its columns 7"),
    ],
    ids=str,
)
def test_places_and_sizes_of_a_shard_that_cannot_be_are_named(tmp_path: Path, at: int, value: int, says: str) -> None:
    shard = bytearray(Path(mds_by_hand(tmp_path / "mds").files[0]).read_bytes())
    struct.pack_into("<I", shard, at, value)
    with refused(f"shard.00000.mds, sample 0 cannot be read: {says}; write the folder again with MDSWriter"):
        mds_by_hand(tmp_path / "mds", bytes(shard)).read(0, [0])


def test_random_bytes_of_a_shard_are_errors_of_one_line_or_samples(tmp_path: Path) -> None:
    whole = Path(mds_by_hand(tmp_path / "mds").files[0]).read_bytes()
    draw = random.Random(1)
    errors = 0
    for _ in range(300):
        shard = bytearray(whole)
        for _ in range(draw.randrange(1, 4)):
            shard[draw.randrange(len(shard))] = draw.randrange(256)
        if draw.random() < 0.2:
            del shard[draw.randrange(len(shard)) :]
        for record in range(4):
            try:
                [sample] = mds_by_hand(tmp_path / "mds", bytes(shard)).read(0, [record])
                assert set(sample) == {"number", "text"}
            except PacelineError as error:
                assert "\n" not in str(error) and "shard.00000.mds" in str(error)
                errors += 1
    assert errors > 100


@pytest.mark.parametrize("compression", ["zstd", "gz", "bz2", "br", "snappy"])
def test_compressed_mds_shards_are_refused_and_read_once_they_are_decompressed(
    tmp_path: Path, compression: str
) -> None:
    streaming = library("streaming")
    folder = tmp_path / "mds"
    with streaming.MDSWriter(
        out=str(folder), columns={"id": "int"}, compression=compression, hashes=["sha1"], size_limit=1000
    ) as out:
        for record in range(300):
            out.write({"id": record})
    with refused("shard.00000.mds is there compressed only; decompress it, or write with compression=None"):
        MdsFolder(str(folder))
    for shard in folder.glob("*.mds.*"):
        raw = streaming.base.compression.decompress(compression, shard.read_bytes())
        shard.with_suffix("").write_bytes(raw)
    assert [one["id"] for one in everything(MdsFolder(str(folder)))] == list(range(300))


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
