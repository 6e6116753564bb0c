"""Damaged shards and records: one line and the end of the job, or left out with the rest trained."""

from __future__ import annotations

import errno
import gzip
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from stream_files import library, refused

from paceline.errors import PacelineError
from paceline.streams import FileShards, JsonLines, Mixture, ParquetFiles, Remote, Shards, Stream, TarFiles
from paceline.streams.forward import Forward
from paceline.streams.host_source import HostSource
from paceline.streams.leased import Leased
from paceline.streams.said import _here
from paceline.streams.source import Damaged


@pytest.fixture(autouse=True)
def _nothing_said() -> None:
    _here.clear()


def numbers(source, **options) -> list[int]:
    stream = Stream(source, damaged="skip", map=lambda record: record["number"], **options)
    return sorted(stream.epoch())


def lines(numbers) -> list[str]:
    return [json.dumps({"number": number}) + "\n" for number in numbers]


def zipped(path: str):
    with gzip.open(path, "rt") as file:
        yield from map(json.loads, file)


def three_zips(tmp_path: Path, cut: int) -> list[str]:
    """The second one has lost its last bytes."""
    for shard in range(3):
        data = gzip.compress("".join(lines(range(1000 * shard, 1000 * shard + 500))).encode())
        (tmp_path / f"{shard}.gz").write_bytes(data[:-cut] if shard == 1 else data)
    return [str(tmp_path / f"{shard}.gz") for shard in range(3)]


def test_a_damaged_line_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    text = lines(range(20))
    text[7] = '{"number": \n'
    (tmp_path / "a.jsonl").write_text("".join(text))
    assert numbers(JsonLines(str(tmp_path))) == [number for number in range(20) if number != 7]
    said = capsys.readouterr().err
    assert said.startswith(f"paceline: line 8 of {tmp_path}/a.jsonl is no JSON: ") and said.endswith("; skipped\n")
    assert said.count("\n") == 1
    with refused("line 8 of .* is no JSON: .*; "):
        list(Stream(JsonLines(str(tmp_path))).epoch())


def test_a_shard_ends_at_its_damage(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    files = three_zips(tmp_path, 300)
    alone: list[int] = []
    with pytest.raises(EOFError):
        for record in zipped(files[1]):
            alone.append(record["number"])
    assert 0 < len(alone) < 500
    expected = [*range(500), *alone, *range(2000, 2500)]
    stream = Stream(FileShards(files, zipped), damaged="skip", shuffle=64, interleave=2, stride=4)
    for number in range(2):  # the second pass knows it
        assert sorted(record["number"] for record in stream.epoch(number)) == expected
    assert capsys.readouterr().err.count(f"the shard {files[1]} cannot be read: ") == 1
    with refused(f"the shard {files[1]} cannot be read: .*; repair it, or leave it out"):
        list(Stream(FileShards(files, zipped)).epoch())


def test_a_shard_that_is_damaged_stays_so_when_it_is_asked_again(tmp_path: Path) -> None:
    source = FileShards(three_zips(tmp_path, 300), zipped)
    for _ in range(3):
        with refused("the shard .* cannot be read: "):
            source.up_to(1, 1 << 40)


def eager(path: str) -> list[dict]:
    return list(zipped(path))


@pytest.mark.parametrize("open_one", [zipped, eager])
@pytest.mark.parametrize("place", ["files", "addresses"])
def test_a_shard_whose_first_record_is_damaged_is_left_out_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture, place: str, open_one
) -> None:
    files: list = three_zips(tmp_path, 300)
    Path(files[1]).write_bytes(b"no gzip at all")
    if place == "addresses":
        library("fsspec")
        files = [f"file://{file}" for file in files]
    given = Remote(files, cache=tmp_path / "cache") if place == "addresses" else files
    assert numbers(FileShards(given, open_one)) == [*range(500), *range(2000, 2500)]
    assert numbers(HostSource(FileShards(given, open_one), f"first-{tmp_path}", 1)) == [
        *range(500),
        *range(2000, 2500),
    ]
    assert capsys.readouterr().err.count(f"the shard {files[1]} cannot be read: Not a gzipped file") == 1
    source = FileShards(given, open_one)
    for _ in range(2):
        with refused(f"the shard {files[1]} cannot be read: Not a gzipped file .*; repair it, or leave it out"):
            list(Stream(source).epoch())


def test_a_shard_that_cannot_be_opened_again_has_its_damage_at_its_beginning(tmp_path: Path) -> None:
    files = three_zips(tmp_path, 300)
    source = FileShards(files, eager, window=100)
    assert source.read(0, [400]) == [{"number": 400}]
    Path(files[0]).write_bytes(b"no gzip at all".ljust(Path(files[0]).stat().st_size))
    for _ in range(2):
        with pytest.raises(Damaged) as caught:
            source.read(0, [7])
        assert caught.value.records == 0


def test_the_readers_of_a_host_say_the_same(tmp_path: Path) -> None:
    source = FileShards(three_zips(tmp_path, 300), zipped)
    assert isinstance(source, Forward)
    shared = HostSource(source, f"damaged-{tmp_path}", 2)
    assert numbers(shared) == numbers(FileShards(three_zips(tmp_path, 300), zipped))


def test_a_shard_that_cannot_be_reached_is_never_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(lines(range(5))))
    source = JsonLines(str(tmp_path))
    (tmp_path / "a.jsonl").unlink()
    with refused("the shard .*a.jsonl cannot be read: No such file or directory; "):
        numbers(source)
    for open_one in (zipped, gzip.open):
        with refused("the shard nowhere cannot be read: .*No such file or directory.*; see that it can be read"):
            numbers(Shards(["nowhere"], open_one))


@pytest.mark.parametrize("fault", [PermissionError(errno.EACCES, "Permission denied"), MemoryError()], ids=repr)
@pytest.mark.parametrize("kind", ["footer", "rows", "tar"])
def test_what_the_system_refuses_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception, kind: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise fault

    if kind == "tar":
        with tarfile.open(tmp_path / "a.tar", "w") as tar:
            member = tarfile.TarInfo("0.json")
            member.size = 1
            tar.addfile(member, io.BytesIO(b"1"))
        source: Any = TarFiles(str(tmp_path))
        monkeypatch.setattr(
            json, "loads", lambda text: fail() if text == b"1" else json.JSONDecoder().decode(text.decode())
        )
    else:
        pyarrow, parquet = library("pyarrow"), library("pyarrow.parquet")
        parquet.write_table(pyarrow.table({"number": range(10)}), tmp_path / "a.parquet")
        source = ParquetFiles(str(tmp_path))
        if kind == "rows":
            source.length(0)
            monkeypatch.setattr(source._opened.get(0)[0], "read_row_group", fail)
        else:
            monkeypatch.setattr(parquet, "ParquetFile", fail)
    with refused(
        f"the shard .* cannot be read: .*({fault.strerror if isinstance(fault, OSError) else 'MemoryError'})"
    ):
        list(Stream(source, damaged="skip").epoch())


def test_a_tar_that_was_cut_is_left_out_whole_and_a_bad_member_alone(tmp_path: Path) -> None:
    for shard in range(3):
        with tarfile.open(tmp_path / f"{shard}.tar", "w") as tar:
            for number in range(10 * shard, 10 * shard + 10):
                text = b"{" if number == 3 else json.dumps(number).encode()
                member = tarfile.TarInfo(f"{number:03}.json")
                member.size = len(text)
                tar.addfile(member, io.BytesIO(text))
    with (tmp_path / "1.tar").open("r+b") as file:
        file.truncate(4000)
    stream = Stream(TarFiles(str(tmp_path)), map=lambda one: one["json"], damaged="skip")
    assert sorted(stream.epoch()) == [number for number in [*range(10), *range(20, 30)] if number != 3]


def test_a_row_group_that_is_damaged_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    pyarrow, parquet = library("pyarrow"), library("pyarrow.parquet")
    table = pyarrow.table({"number": range(1000)})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=100, use_dictionary=False)
    group = parquet.ParquetFile(tmp_path / "a.parquet").metadata.row_group(4).column(0)
    with (tmp_path / "a.parquet").open("r+b") as file:
        file.seek(group.data_page_offset)
        file.write(b"\xff" * 40)
    found = numbers(ParquetFiles(str(tmp_path)))
    assert found == [number for number in range(1000) if not 400 <= number < 500]
    assert capsys.readouterr().err.count("\n") == 1


def test_a_lease_has_fewer_samples_by_the_damaged_ones(tmp_path: Path) -> None:
    text = lines(range(20))
    text[7] = "{\n"
    (tmp_path / "a.jsonl").write_text("".join(text))
    stream = Stream(JsonLines(str(tmp_path)), map=lambda record: record["number"], shuffle=0, damaged="skip")
    assert stream.varies
    leased = Leased(stream, 1, 1)
    before: list[int] = []
    assert leased.draw(0, range(4, 9), before.append)[0] == [4, 5, 6, 8]
    assert before == [4, 5, 6, 8]


def test_damaged_is_stop_or_skip(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(lines(range(5))))
    with pytest.raises(PacelineError, match='damaged = \'ignore\' is unknown; write "stop" or "skip"'):
        Stream(JsonLines(str(tmp_path)), damaged="ignore")


def count(path: str) -> int:
    return sum(1 for _ in zipped(path))


def test_a_shard_whose_records_cannot_be_counted_is_named(tmp_path: Path) -> None:
    files = three_zips(tmp_path, 300)
    with refused(f"the shard {files[1]} cannot be read: Compressed file ended .*; repair it, or leave it out"):
        Mixture({"a": (FileShards(files, zipped, length=count), 1)})
    whole = Stream(FileShards(files, zipped, length=count), damaged="skip")
    assert sorted(record["number"] for record in whole.epoch()) == [*range(500), *range(2000, 2500)]


def test_a_shard_that_shrank_says_how_many_records_it_had_at_least(tmp_path: Path) -> None:
    files = [tmp_path / "a.txt"]
    files[0].write_text("x\n" * 50)
    stream = Stream(FileShards(files, open, length=lambda path: len(Path(path).read_text().splitlines())))
    assert len(stream) == 50
    files[0].write_text("x\n" * 20)
    with refused("the shard .*a.txt has 20 records now, and had (2[1-9]|[345][0-9]); "):
        list(stream.epoch())
