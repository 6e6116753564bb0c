"""Sources of files, beside what the libraries that wrote the files say is in them."""

from __future__ import annotations

import codecs
import glob
import io
import json
import os
import pickle
import shutil
import subprocess
import tarfile
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from stream_files import everything, in_child, library, refused

from paceline.streams import FileShards, JsonLines, ParquetFiles, Stream, TarFiles
from paceline.streams.files import Opened

# JSON lines


def write_lines(folder: Path, shards: int = 3, records: int = 50) -> list[dict]:
    written = []
    for shard in range(shards):
        lines = [{"id": shard * 1000 + record, "text": "ä" * (record % 9)} for record in range(records + shard)]
        written += lines
        text = "\n".join(
            json.dumps(line, ensure_ascii=False) + ("\n" if line["id"] % 7 == 0 else "") for line in lines
        )
        (folder / f"{shard}.jsonl").write_text(text)
    return written


def test_json_lines_are_those_written(tmp_path: Path) -> None:
    written = write_lines(tmp_path)
    source = JsonLines(tmp_path)
    assert everything(source) == written
    in_child(source)
    stream = Stream(JsonLines(str(tmp_path / "*.jsonl")), shuffle=16)
    assert sorted(one["id"] for one in stream.epoch(1)) == [one["id"] for one in written]
    assert len(stream) == len(written)


@pytest.mark.parametrize("text", ["1\n2\n", "\n1\n2", "1\n2\n\ufeff3\n", ""], ids=repr)
def test_a_byte_order_mark_at_the_begin_of_a_file_is_no_part_of_its_first_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.jsonl").write_bytes(codecs.BOM_UTF8 + text.encode())
    source = JsonLines(tmp_path)
    lines = [line for line in text.split("\n") if line]
    assert source.length(0) == len(lines)
    assert source.read(0, range(len(lines))[:2]) == [1, 2][: len(lines)]
    if len(lines) > 2:
        with refused("line 3 of .*a.jsonl is no JSON: Unexpected UTF-8 BOM"):
            source.read(0, [2])


def test_a_line_that_is_too_deep_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("[" * 100_000 + "]" * 100_000 + "\n1\n")
    with refused("line 1 of .*a.jsonl is no JSON: maximum recursion depth"):
        everything(JsonLines(tmp_path))
    assert list(Stream(JsonLines(tmp_path), damaged="skip").epoch()) == [1]


@pytest.mark.parametrize("kind", [JsonLines, TarFiles])
def test_a_record_that_no_single_call_gives_whole_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type
) -> None:
    """One call gives 2 GiB at most."""
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda file, size, begin: pread(file, min(size, 1000), begin))
    (tmp_path / "a.jsonl").write_text(json.dumps("x" * 10_001) + "\n")
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.add(tmp_path / "a.jsonl", "a.json")
    [[record]] = [kind(tmp_path).read(0, [0])]
    assert record == "x" * 10_001 if kind is JsonLines else record["json"] == "x" * 10_001


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with refused(
        r"a.jsonl is a folder, and .*/\*.jsonl matches it; write a pattern of files, such as .*/\*.jsonl/\*"
    ):
        JsonLines(f"{tmp_path}/*.jsonl")
    with refused("pipe is neither a file nor a folder; give a file"):
        JsonLines(tmp_path / "pipe")


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n\n{"a": \n{"a": 3}\n')
    source = JsonLines([tmp_path / "a.jsonl"])
    assert source.length(0) == 3 and source.read(0, [0, 2]) == [{"a": 1}, {"a": 3}]
    with refused(r"line 3 of .*a.jsonl is no JSON: Expecting value.*; repair it"):
        source.read(0, [1])


def test_a_damaged_line_far_behind_takes_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "a.jsonl").write_text(f"{'x' * 999}\n" * 20_000 + "{\n")
    source = JsonLines([tmp_path / "a.jsonl"])
    assert source.length(0) == 20_001
    tracemalloc.start()
    try:
        with refused("line 20001 of .*a.jsonl is no JSON"):
            source.read(0, [20_000])
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 5 << 20


@pytest.mark.parametrize("size", [1, 300_000], ids=["small", "with a kept index"])
def test_a_file_whose_name_is_no_text_is_read(tmp_path: Path, size: int) -> None:
    name = os.fsencode(tmp_path) + b"/\xff.jsonl"
    with open(name, "w") as file:
        file.write(json.dumps("x" * size) + "\n")
    stream = Stream(JsonLines(tmp_path))
    assert [len(one) for one in stream.epoch()] == [size]
    forward = FileShards(tmp_path, open)
    forward.keep_places("here")
    assert [len(one) for one in Stream(forward).epoch()] == [size + 3]
    assert stream.digest() != Stream(forward).digest()


def test_a_link_to_a_folder_above_adds_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data" / "inner").mkdir(parents=True)
    for name in ("data/a.jsonl", "data/inner/b.jsonl"):
        (tmp_path / name).write_text("1\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "c.jsonl").write_text("1\n")
    (tmp_path / "data" / "round").symlink_to(tmp_path / "data")
    (tmp_path / "data" / "inner" / "round").symlink_to("..")
    (tmp_path / "data" / "linked").symlink_to("../other")
    expected = ["data/a.jsonl", "data/inner/b.jsonl", "data/linked/c.jsonl"]
    assert JsonLines(f"{tmp_path}/data/**/*.jsonl").files == [f"{tmp_path}/{name}" for name in expected]
    monkeypatch.chdir(tmp_path / "data")
    assert JsonLines("**/*.jsonl").files == [name.removeprefix("data/") for name in expected]


@pytest.mark.parametrize(
    "pattern", ["**/*.jsonl", "a/**/*.jsonl", "**/b/*.jsonl", "a/**", "**/a/**/*.jsonl", "*/*l", "[ab]/**/c*"]
)
def test_a_pattern_finds_what_glob_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str) -> None:
    for name in (
        "a/1.jsonl",
        "a/b/2.jsonl",
        "a/b/c.jsonl",
        "b/a/4.jsonl",
        "a/.hidden/5.jsonl",
        "a/.6.jsonl",
        "[x]/7.jsonl",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1\n")
    monkeypatch.chdir(tmp_path)
    for prefix in ("", f"{tmp_path}/"):
        found = {file for file in glob.glob(prefix + pattern, recursive=True) if os.path.isfile(file)}
        assert set(filter(os.path.isfile, JsonLines(prefix + pattern).files)) == found


@pytest.mark.parametrize("kept", [False, True], ids=["before", "while open"])
def test_a_file_that_shrank_is_named(tmp_path: Path, kept: bool) -> None:
    write_lines(tmp_path, shards=1, records=5000)
    source = JsonLines(tmp_path)
    assert source.length(0) == 5000
    if kept:
        source.read(0, [0])
    os.truncate(tmp_path / "0.jsonl", 60)
    with refused("the shard .*0.jsonl has [0-9]+ (bytes|records) now, and had [0-9]+; leave shards unchanged"):
        source.read(0, [4000])


# Parquet


def write_parquet(folder: Path, shards: int = 3, records: int = 50) -> list[dict]:
    pyarrow, parquet = library("pyarrow"), library("pyarrow.parquet")
    written = []
    for shard in range(shards):
        rows = [
            {"id": shard * 1000 + row, "text": "x" * row, "few": [row] * (row % 3)} for row in range(records + shard)
        ]
        parquet.write_table(pyarrow.Table.from_pylist(rows), folder / f"{shard}.parquet", row_group_size=8)
        written += rows
    return written


def test_parquet_rows_are_those_written(tmp_path: Path) -> None:
    written = write_parquet(tmp_path)
    source = ParquetFiles(tmp_path)
    assert everything(source) == written
    in_child(source)
    two = ParquetFiles(tmp_path, columns=["id"], row_groups=1)
    assert sorted(one["id"] for one in Stream(two).epoch()) == [one["id"] for one in written]
    assert list(two.read(0, [1])[0]) == ["id"]


def test_what_is_no_parquet_is_named(tmp_path: Path) -> None:
    library("pyarrow")
    (tmp_path / "a.parquet").write_text("no table, but long enough for a footer")
    with refused("the shard .*a.parquet cannot be read: .*; give a whole Parquet file"):
        ParquetFiles(tmp_path).length(0)


def test_a_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    write_parquet(tmp_path, shards=1)
    with refused("0.parquet has no column 'txt'; choose among these: id, text, few"):
        ParquetFiles(tmp_path, columns=["id", "txt"]).length(0)


def test_a_parquet_file_written_again_is_named(tmp_path: Path) -> None:
    write_parquet(tmp_path, shards=1)
    source = ParquetFiles(tmp_path)
    assert source.length(0) == 50
    write_parquet(tmp_path, shards=1, records=20)
    with refused("the shard .*0.parquet has [0-9]+ bytes now"):
        source.read(0, [3])


# Tar files


def write_tars(folder: Path, shards: int = 2, records: int = 20, image: bool = False) -> list[str]:
    webdataset = library("webdataset")
    numpy = library("numpy")
    written = []
    for shard in range(shards):
        with webdataset.TarWriter(str(folder / f"{shard}.tar")) as tar:
            for record in range(records):
                key = f"folder.x/{shard}-{record}"
                sample = {
                    "__key__": key,
                    "txt": f"text {record}",
                    "cls": record,
                    "json": {"record": record},
                    "npy": numpy.full((2, 2), record),
                    "left.pth": torch.full((3,), record),
                    "other": b"as it is",
                }
                if image:
                    sample["seg.png"] = numpy.full((4, 4, 3), record, numpy.uint8)
                    grey = io.BytesIO()
                    library("PIL.Image").new("L", (4, 4), record).save(grey, "PNG")
                    sample["grey.png"] = grey.getvalue()
                tar.write(sample)
                written.append(key)
    return written


class _Leases(torch.utils.data.Dataset):
    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def __len__(self) -> int:
        return 8

    def __getitem__(self, number: int) -> list:
        return self.stream.records(0, 10 * number, 10 * number + 10)


def test_pipelines_of_webdataset_are_shards(tmp_path: Path) -> None:
    """Each loader process would get a part of a pipeline's samples if it were not told otherwise."""
    written = write_tars(tmp_path, shards=4)
    webdataset = library("webdataset")

    def pipeline(path: str):
        return webdataset.WebDataset(path, shardshuffle=False).decode().to_tuple("__key__", "cls")

    stream = Stream(FileShards(tmp_path, pipeline), shuffle=16)
    assert sorted(key for key, _ in stream.epoch()) == sorted(written)
    loader = torch.utils.data.DataLoader(_Leases(stream), batch_size=None, num_workers=2)
    assert sorted(key for lease in loader for key, _ in lease) == sorted(written)


@pytest.mark.parametrize("image", [False, True])
def test_tar_samples_are_those_of_webdataset(tmp_path: Path, image: bool) -> None:
    if image:
        library("PIL")
    written = write_tars(tmp_path, image=image)
    webdataset = library("webdataset")
    files = sorted(str(file) for file in tmp_path.iterdir())
    theirs = list(webdataset.WebDataset(files, shardshuffle=False).decode("pil"))
    source = TarFiles(tmp_path)
    ours = everything(source)
    assert [one["__key__"] for one in ours] == written
    for their, our in zip(theirs, ours):
        assert {name for name in their if name != "__local_path__"} == set(our)
        for name, value in our.items():
            assert type(value) is type(their[name]) and (str(value) == str(their[name]) or name.endswith("png"))
        if image:
            for name in ("seg.png", "grey.png"):
                assert our[name].mode == their[name].mode and our[name].tobytes() == their[name].tobytes()
    in_child(source)


def test_decode_makes_the_values(tmp_path: Path) -> None:
    write_tars(tmp_path, records=1)
    assert TarFiles(tmp_path, decode=None).read(0, [0])[0]["cls"] == b"0"
    assert TarFiles(tmp_path, decode=lambda ending, data: (ending, len(data))).read(0, [0])[0]["cls"] == ("cls", 1)


def test_a_tar_without_its_end_is_named(tmp_path: Path) -> None:
    plain_tar(tmp_path / "a.tar", {"a.txt": b"a" * 512, "b.txt": b"b" * 512})
    os.truncate(tmp_path / "a.tar", 1024)
    with refused("a.tar cannot be read: it has no end mark, so a part is missing; write the file again"):
        TarFiles(tmp_path).length(0)


def plain_tar(file: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(file, "w") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


@pytest.mark.parametrize("left", [700, 1100, 2000])
def test_a_truncated_tar_is_named(tmp_path: Path, left: int) -> None:
    plain_tar(tmp_path / "a.tar", {"a.txt": b"a" * 100, "b.txt": b"b" * 5000})
    os.truncate(tmp_path / "a.tar", left)
    with refused("the shard .*a.tar cannot be read: .*; write the file again"):
        TarFiles(tmp_path).length(0)


def test_a_damaged_header_is_named(tmp_path: Path) -> None:
    plain_tar(tmp_path / "a.tar", {"a.txt": b"a" * 512, "b.txt": b"b" * 512})
    whole = bytearray((tmp_path / "a.tar").read_bytes())
    whole[1024 + 50] = 77
    (tmp_path / "a.tar").write_bytes(whole)
    with refused("a.tar cannot be read: .*; write the file again"):
        TarFiles(tmp_path).length(0)


@pytest.mark.skipif(shutil.which("tar") is None, reason="there is no tar")
@pytest.mark.parametrize("kind", ["gnu", "posix"])
def test_a_member_without_its_holes_is_named(tmp_path: Path, kind: str) -> None:
    with open(tmp_path / "0.bin", "wb") as file:
        file.write(b"begin")
        file.seek(1 << 20)
        file.write(b"end")
    words = ["tar", "--sparse", f"--format={kind}", "-cf", "a.tar", "0.bin"]
    subprocess.run(words, cwd=tmp_path, check=True)
    with refused("the shard .*a.tar cannot be read: .*0.bin was written without its holes; .* without --sparse"):
        everything(TarFiles(str(tmp_path / "a.tar")))


def test_what_is_no_tar_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(b"x" * 2000)
    with refused("the shard .*a.tar cannot be read: .*; write the file again"):
        TarFiles(tmp_path).length(0)


def test_a_member_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    plain_tar(tmp_path / "a.tar", {"one.cls": b"7", "two.cls": b"seven"})
    source = TarFiles(tmp_path)
    assert source.read(0, [0])[0]["cls"] == 7
    with refused("the shard .*a.tar, two.cls cannot be read: .*seven.*; repair it"):
        source.read(0, [1])


def test_a_member_that_is_there_twice_is_named(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for name in ("one.cls", "one.CLS"):
            tar.addfile(tarfile.TarInfo(name))
    with refused("one.CLS is in it twice; write"):
        TarFiles(tmp_path).length(0)


# Any files


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ([], "an empty list of files; "),
        ("nowhere", "nowhere is no file, and no file matches it; "),
        (["nowhere.jsonl"], "nowhere.jsonl is no file on this host; "),
        (".", r"the folder . has no file named \*.jsonl.*; "),
        ("x.jsonl.gz", "is compressed as a whole, .*; decompress it"),
    ],
)
def test_files_that_are_not_there_are_refused(tmp_path: Path, monkeypatch, files, text: str) -> None:
    monkeypatch.chdir(tmp_path)
    if files == "x.jsonl.gz":
        Path(files).write_bytes(b"")
    with refused(text):
        JsonLines(files)


@pytest.mark.parametrize("keep", [False, True])
def test_a_forked_process_opens_files_anew_and_keeps_plain_memory(keep: bool) -> None:
    opened = Opened(lambda key: (key, os.getpid()), most=2, keep=keep)
    held = opened.get(1)
    child = os.fork()
    if child == 0:
        os._exit(opened.get(1) == held)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == keep
    assert pickle.loads(pickle.dumps(Opened(os.getpgid)))._held == {}


def test_threads_may_ask_at_the_same_time() -> None:
    opened = Opened(lambda key: key, most=2)
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda at: opened.get(at % 5), range(20_000))) == [at % 5 for at in range(20_000)]
    assert len(opened._held) <= 2


def test_only_the_last_used_files_stay_open() -> None:
    made = []
    opened = Opened(made.append, most=2)
    for key in (1, 2, 1, 3, 1, 2):
        opened.get(key)
    assert made == [1, 2, 3, 2]
