"""Files with addresses: copies in a cache on the disk, tries, and what is refused."""

from __future__ import annotations

import gzip
import io
import json
import multiprocessing
import os
import resource
import signal
import struct
import tarfile
import time
from pathlib import Path

import pytest
from misbehaving_server import serving
from stream_files import library, refused

from paceline.streams import (
    FileShards,
    JsonLines,
    MdsFolder,
    ParquetFiles,
    Remote,
    Stream,
    TarFiles,
    TokenFile,
)
from paceline.streams import remote as remote_module

pytest.importorskip("fsspec", reason="fsspec is not installed")
pytest.importorskip("aiohttp", reason="aiohttp is not installed")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(remote_module, "_FIRST_WAIT", 0.01)
    (tmp_path / "there").mkdir()
    with serving(tmp_path / "there") as state:
        yield state


def lines_there(tmp_path: Path, files: int = 3, lines: int = 50) -> list[dict]:
    records = []
    for file in range(files):
        these = [{"file": file, "line": line} for line in range(lines)]
        text = "".join(json.dumps(record) + "\n" for record in these)
        (tmp_path / "there" / f"{file:03}.jsonl").write_text(text)
        records += these
    return records


def all_of(source) -> list:
    return list(Stream(source, shuffle=0, interleave=1).epoch())


def test_json_lines_of_addresses_are_those_of_the_files(tmp_path: Path, server) -> None:
    records = lines_there(tmp_path)
    source = JsonLines(Remote(f"{server.url}/{{000..002}}.jsonl", cache=tmp_path / "cache"))
    assert all_of(source) == records
    assert sum(server.gets.values()) == 3  # each came once, and the second reader reads the copies
    again = JsonLines(Remote(f"{server.url}/{{000..002}}.jsonl", cache=tmp_path / "cache"))
    assert all_of(again) == records
    assert sum(server.gets.values()) == 3


def test_an_address_may_have_a_query_such_as_a_signature(tmp_path: Path, server) -> None:
    records = lines_there(tmp_path, files=1)
    address = f"{server.url}/000.jsonl?signature=a*b/c&expires=1"
    assert all_of(JsonLines(Remote(address, cache=tmp_path / "cache"))) == records
    assert [name for name in os.listdir(tmp_path / "cache") if name.endswith("-000.jsonl")]
    assert list(server.gets) == ["/000.jsonl?signature=a*b/c&expires=1"]


def test_file_shards_get_the_paths_of_copies(tmp_path: Path, server) -> None:
    records = lines_there(tmp_path)

    def read(path: str):
        with open(path) as lines:
            yield from map(json.loads, lines)

    addresses = [f"{server.url}/{file:03}.jsonl" for file in range(3)]
    assert all_of(FileShards(Remote(addresses, cache=tmp_path / "cache"), read)) == records
    sized = FileShards(
        Remote(addresses, cache=tmp_path / "cache"),
        read,
        length=lambda path: len(Path(path).read_text().splitlines()),
    )
    assert len(Stream(sized)) == len(records)


def test_a_compressed_file_comes_as_it_is(tmp_path: Path, server) -> None:
    (tmp_path / "there" / "a.txt.gz").write_bytes(gzip.compress(b"one\ntwo\n"))
    (tmp_path / "there" / "b.txt").write_bytes(gzip.compress(b"three\n"))
    for encoding in ("", "gzip", "x-gzip"):
        server.encoding = encoding
        address = f"{server.url}/a.txt.gz?encoding={encoding}"
        assert all_of(FileShards(Remote(address, cache=tmp_path / "cache"), gzip.open)) == [b"one\n", b"two\n"]
    server.encoding = "gzip"  # the server has compressed what is no compressed file by its name
    assert all_of(FileShards(Remote(f"{server.url}/b.txt", cache=tmp_path / "cache"), open)) == ["three\n"]


def test_tars_of_addresses(tmp_path: Path, server) -> None:
    with tarfile.open(tmp_path / "there" / "a.tar", "w") as tar:
        for number in range(20):
            member = tarfile.TarInfo(f"{number:03}.txt")
            member.size = 3
            tar.addfile(member, io.BytesIO(f"{number:03}".encode()))
    found = all_of(TarFiles(Remote(f"{server.url}/a.tar", cache=tmp_path / "cache")))
    assert [one["txt"] for one in found] == [f"{number:03}" for number in range(20)]
    assert found[0]["__url__"] == f"{server.url}/a.tar"


def test_the_rows_of_a_parquet_file_are_learnt_from_its_end_alone(tmp_path: Path, server) -> None:
    pyarrow, parquet = library("pyarrow"), library("pyarrow.parquet")
    noise = os.urandom(8 << 20)
    table = pyarrow.table({"number": range(64), "noise": [noise[at << 17 : (at + 1) << 17] for at in range(64)]})
    parquet.write_table(table, tmp_path / "there" / "a.parquet", compression="none")
    source = ParquetFiles(Remote(f"{server.url}/a.parquet", cache=tmp_path / "cache"))
    assert source.length(0) == 64
    assert server.bytes["/a.parquet"] < 8 << 20
    assert [one["number"] for one in all_of(source)] == list(range(64))


def test_mds_folders_of_addresses(tmp_path: Path, server) -> None:
    streaming = library("streaming")
    with streaming.MDSWriter(out=str(tmp_path / "there" / "mds"), columns={"number": "int64"}) as writer:
        for number in range(30):
            writer.write({"number": number})
    found = all_of(MdsFolder(Remote(f"{server.url}/mds", cache=tmp_path / "cache")))
    assert [int(one["number"]) for one in found] == list(range(30))


def test_token_files_of_addresses_are_mapped_from_their_copies(tmp_path: Path, server) -> None:
    numpy = library("numpy")
    tokens = numpy.arange(1000, dtype="uint16")
    tokens.tofile(tmp_path / "there" / "a.bin")
    numpy.save(tmp_path / "there" / "b.npy", tokens)
    for name in ("a.bin", "b.npy"):
        source = TokenFile(Remote(f"{server.url}/{name}", cache=tmp_path / "cache"), window=10, targets=False)
        for copy in (tmp_path / "cache").glob("[0-9a-f]*"):
            copy.unlink()  # other files took its room
        assert [one.tolist() for one in all_of(source)] == tokens.reshape(100, 10).tolist()


@pytest.mark.parametrize("kind", ["http", "file"])
def test_the_index_beside_a_token_file_of_an_address_says_the_type(tmp_path: Path, server, kind: str) -> None:
    numpy = library("numpy")
    tokens = numpy.arange(1000, dtype="int32")
    tokens.tofile(tmp_path / "there" / "a.bin")
    (tmp_path / "there" / "a.idx").write_bytes(b"MMIDIDX\x00\x00" + struct.pack("<QB", 1, 4) + bytes(64))
    base = server.url if kind == "http" else f"file://{tmp_path}/there"
    for query in ("", "?signature=1") if kind == "http" else ("",):
        source = TokenFile(Remote(f"{base}/a.bin{query}", cache=tmp_path / "cache"), window=10, targets=False)
        assert [one.tolist() for one in all_of(source)] == tokens.reshape(100, 10).tolist()
    (tmp_path / "there" / "a.idx").write_text("<html>nothing is here</html>")
    source = TokenFile(Remote(f"{base}/a.bin", cache=tmp_path / "cache"), 10, "int32", targets=False)
    assert len(Stream(source)) == 100


def test_folders_among_files_of_addresses(tmp_path: Path) -> None:
    (tmp_path / "there" / "more").mkdir(parents=True)
    for name in ("a.txt", "more/b.txt"):
        (tmp_path / "there" / name).write_text(f"{name}\n")
    base = f"file://{tmp_path}/there"

    def read(files: str) -> list[str]:
        return [line.strip() for line in all_of(FileShards(Remote(files, cache=tmp_path / "cache", tries=1), open))]

    assert read(f"{base}/") == ["a.txt"]
    assert read(f"{base}/**") == ["a.txt", "more/b.txt"]
    with refused(r"file:///\S+/more is a folder, and file:///\S+/\* matches it; write a pattern of files, such as "):
        read(f"{base}/*")
    with refused(r"file:///\S+/there is a folder; write file:///\S+/there/ for the files in it"):
        read(base)


@pytest.mark.parametrize("faults", [["error"], ["cut"], ["error", "cut", "cut", "error"]], ids=str)
def test_a_fault_that_passes_is_not_noticed(tmp_path: Path, server, faults: list[str]) -> None:
    records = lines_there(tmp_path, files=1)
    server.faults = list(faults)
    assert all_of(JsonLines(Remote(f"{server.url}/000.jsonl", cache=tmp_path / "cache"))) == records
    assert server.gets["/000.jsonl"] == len(faults) + 1


def test_an_answer_in_chunks_that_was_cut_is_not_taken_for_a_whole_one(tmp_path: Path, server) -> None:
    records = lines_there(tmp_path, files=1)
    server.chunked = True
    server.faults = ["cut", "cut"]
    assert all_of(JsonLines(Remote(f"{server.url}/000.jsonl", cache=tmp_path / "cache"))) == records
    assert not server.faults


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda url, folder: [f"{folder}/a.jsonl", f"{url}/a.jsonl"],
            r"a list has addresses \(http://.*/a.jsonl\) and paths \(/.*/a.jsonl\); .*file:///",
        ),
        (
            lambda url, folder: [f"{url}/a.jsonl", folder / "a.jsonl"],
            r"a list has addresses \(http://.*/a.jsonl\) and paths \(/.*/a.jsonl\); .*file:///",
        ),
        (
            lambda url, folder: "htps://h/a.jsonl",
            "htps:// of htps://h/a.jsonl is unknown to fsspec; write https://, ",
        ),
        (lambda url, folder: f"{url}/b[1].jsonl", r"no file is at http://.*/b\[1\].jsonl; .* write %5B for a \["),
        (lambda url, folder: f"file://{folder}/b[1].jsonl", r"no file is at .*; .* write \[\[\] for a \[ of a name"),
    ],
)
def test_addresses_that_name_no_file_say_what_to_write(tmp_path: Path, server, make, text: str) -> None:
    for name in ("a.jsonl", "b[1].jsonl"):
        (tmp_path / "there" / name).write_text("{}\n")
    with refused(text):
        all_of(JsonLines(make(server.url, tmp_path / "there")))


@pytest.mark.parametrize("kind", ["http", "file"])
def test_a_bracket_of_a_name_can_be_written(tmp_path: Path, server, kind: str) -> None:
    (tmp_path / "there" / "b[1].jsonl").write_text('{"number": 1}\n')
    address = f"{server.url}/b%5B1%5D.jsonl" if kind == "http" else f"file://{tmp_path}/there/b[[]1].jsonl"
    assert all_of(JsonLines(Remote(address, cache=tmp_path / "cache"))) == [{"number": 1}]


@pytest.mark.parametrize("fault", ["error", "cut"])
def test_a_fault_that_stays_is_one_line_with_the_address(tmp_path: Path, server, fault: str) -> None:
    lines_there(tmp_path, files=1)
    server.faults = [fault] * 100
    with refused(
        r"the shard http://\S+/000.jsonl cannot be read: .* \(after 3 tries\); see that the storage answers"
    ):
        all_of(JsonLines(Remote(f"{server.url}/000.jsonl", cache=tmp_path / "cache", tries=3)))
    assert server.gets["/000.jsonl"] == 3
    assert not [file for file in (tmp_path / "cache").iterdir() if not file.name.startswith("lock-")]


def test_a_missing_file_is_not_tried_again(tmp_path: Path, server) -> None:
    with refused(r"the shard http://\S+/000.jsonl cannot be read: no such file; "):
        all_of(JsonLines(Remote(f"{server.url}/000.jsonl", cache=tmp_path / "cache")))
    assert server.gets["/000.jsonl"] <= 1


def test_a_server_that_is_away_when_it_is_asked_for_a_size_is_asked_again(tmp_path: Path, server) -> None:
    records = lines_there(tmp_path, files=1)
    server.statuses = [503] * 4
    assert all_of(JsonLines(Remote(f"{server.url}/000.jsonl", cache=tmp_path / "cache"))) == records
    assert not server.statuses


def test_a_server_that_stays_away_is_not_taken_for_a_missing_file(tmp_path: Path) -> None:
    with refused(r"the shard http://\S+ cannot be read: .*connect.* \(after 1 try\); see that the storage answers"):
        all_of(JsonLines(Remote("http://127.0.0.1:1/000.jsonl", cache=tmp_path / "cache", tries=1)))


@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_wants_a_password_is_asked_once(tmp_path: Path, server, status: int) -> None:
    lines_there(tmp_path, files=1)
    server.statuses = [status] * 100
    with refused(rf"the shard http://\S+ cannot be read: {status}, .*; give Remote\(\) what the server wants"):
        all_of(JsonLines(Remote(f"{server.url}/000.jsonl", cache=tmp_path / "cache")))
    assert len(server.statuses) >= 98  # one HEAD and one GET


def test_a_file_that_changed_since_another_job_is_copied_again(tmp_path: Path, server) -> None:
    lines_there(tmp_path, files=1)
    address = f"{server.url}/000.jsonl"
    all_of(JsonLines(Remote(address, cache=tmp_path / "cache")))
    (tmp_path / "there" / "000.jsonl").write_text('{"new": 1}\n')
    assert all_of(JsonLines(Remote(address, cache=tmp_path / "cache"))) == [{"new": 1}]


@pytest.mark.parametrize("mark", ["ETag", "Last-Modified"])
def test_a_file_of_the_same_size_is_another_one_by_its_etag_or_its_time(tmp_path: Path, server, mark: str) -> None:
    server.mark = mark
    address, file = f"{server.url}/a.jsonl", tmp_path / "there" / "a.jsonl"
    for number in range(2):
        file.write_text(f'{{"number": {number}}}\n')
        os.utime(file, (1000 * number, 1000 * number))
        assert all_of(JsonLines(Remote(address, cache=tmp_path / "cache"))) == [{"number": number}]


def test_a_copy_that_a_loss_of_power_has_torn_is_made_again(tmp_path: Path, server) -> None:
    records = lines_there(tmp_path, files=1)
    source = Remote(f"{server.url}/000.jsonl", cache=tmp_path / "cache")
    assert all_of(JsonLines(source)) == records
    [copy] = (tmp_path / "cache").glob("*.jsonl")
    copy.write_bytes(b"")
    assert all_of(JsonLines(source)) == records


def test_files_of_others_in_the_folder_of_a_cache_stay(tmp_path: Path, server) -> None:
    records = lines_there(tmp_path, files=4)
    size = (tmp_path / "there" / "000.jsonl").stat().st_size
    cache = tmp_path / "cache"
    (cache / "folder").mkdir(parents=True)
    for name in ("thesis.tex", "notes.part", "notes.1.part"):
        (cache / name).write_bytes(b"x" * 3 * size)
        os.utime(cache / name, (0, 0))
    source = JsonLines(Remote(f"{server.url}/{{000..003}}.jsonl", cache=cache, gigabytes=1.5 * size / 1e9))
    assert all_of(source) == records
    assert sorted(file.name for file in cache.iterdir() if not file.name.startswith("lock-"))[-4:] == [
        "folder",
        "notes.1.part",
        "notes.part",
        "thesis.tex",
    ]


def test_another_file_that_open_does_not_find_is_named(tmp_path: Path, server) -> None:
    lines_there(tmp_path, files=1)

    def records(path: str):
        yield from Path(tmp_path / "labels.txt").read_text()

    with refused(r"the shard http://\S+/000.jsonl cannot be read: .* No such file .*labels.txt'; "):
        all_of(FileShards(Remote(f"{server.url}/000.jsonl", cache=tmp_path / "cache"), records))


@pytest.mark.parametrize("sized", [True, False])
def test_a_server_that_gives_whole_files_only_is_asked_for_the_parquet_file(
    tmp_path: Path, server, sized: bool
) -> None:
    pyarrow, parquet = library("pyarrow"), library("pyarrow.parquet")
    table = pyarrow.table({"number": range(48), "noise": [os.urandom(1 << 17) for _ in range(48)]})
    parquet.write_table(table, tmp_path / "there" / "a.parquet", compression="none")
    server.whole, server.chunked = True, not sized
    source = ParquetFiles(Remote(f"{server.url}/a.parquet", cache=tmp_path / "cache"))
    assert [one["number"] for one in all_of(source)] == list(range(48))


def test_a_damaged_parquet_file_of_a_server_is_one_that_is_left_out(tmp_path: Path, server) -> None:
    library("pyarrow")
    (tmp_path / "there" / "a.parquet").write_bytes(b"no Parquet file" * 10)
    source = ParquetFiles(Remote(f"{server.url}/a.parquet", cache=tmp_path / "cache"))
    with refused(r"the shard http://\S+/a.parquet cannot be read: .*; give a whole Parquet file"):
        all_of(source)
    assert list(Stream(source, damaged="skip").epoch()) == []


def test_the_cache_stays_within_its_bytes_and_nothing_is_lost(tmp_path: Path, server) -> None:
    records = lines_there(tmp_path, files=8)
    size = (tmp_path / "there" / "000.jsonl").stat().st_size
    cache = tmp_path / "cache"
    source = JsonLines(Remote(f"{server.url}/{{000..007}}.jsonl", cache=cache, gigabytes=2.5 * size / 1e9))
    found = []
    for record in Stream(source, shuffle=0, interleave=4, stride=3, records=len(records)).epoch():
        found.append(record)
        used = sum(file.stat().st_size for file in cache.iterdir() if not file.name.startswith("lock-"))
        assert used <= 2.5 * size
    assert sorted(map(str, found)) == sorted(map(str, records))


def test_a_file_larger_than_the_cache_is_one_line(tmp_path: Path, server) -> None:
    lines_there(tmp_path, files=1)
    with refused(r"it has \d+ bytes, and the cache may have 10; give Remote\(gigabytes=\) more room in "):
        all_of(JsonLines(Remote(f"{server.url}/000.jsonl", cache=tmp_path / "cache", gigabytes=1e-8)))


def test_a_disk_that_is_full_is_one_line(tmp_path: Path, server) -> None:
    lines_there(tmp_path, files=1)
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
        with refused(
            r"the cache \S+ cannot take http://\S+/000.jsonl: .*; free space there, or give Remote\(cache=\)"
        ):
            all_of(JsonLines(Remote(f"{server.url}/000.jsonl", cache=tmp_path / "cache", tries=1)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_cache_in_a_place_that_cannot_be_written_is_one_line(tmp_path: Path, server) -> None:
    lines_there(tmp_path, files=1)
    (tmp_path / "file").write_text("")
    with refused(r"the cache \S+/file/cache cannot take http://\S+: Not a directory; "):
        all_of(JsonLines(Remote(f"{server.url}/000.jsonl", cache=tmp_path / "file" / "cache")))


def _read_all(url: str, cache: str, results) -> None:
    results.put(all_of(JsonLines(Remote(f"{url}/{{000..005}}.jsonl", cache=cache))))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_of_a_host_copy_each_file_once(tmp_path: Path, server, method: str) -> None:
    records = lines_there(tmp_path, files=6)
    all_of(JsonLines(Remote(f"{server.url}/000.jsonl", cache=tmp_path / "mine")))  # fsspec's threads are in a parent
    server.gets.clear()
    context = multiprocessing.get_context(method)
    results = context.Queue()
    readers = [
        context.Process(target=_read_all, args=(server.url, str(tmp_path / "cache"), results)) for _ in range(4)
    ]
    for reader in readers:
        reader.start()
    assert [results.get(timeout=120) for _ in readers] == [records] * 4
    for reader in readers:
        reader.join(120)
    assert all(gets == 1 for gets in server.gets.values()) and len(server.gets) == 6


def test_the_next_shards_are_copied_while_the_first_are_read(tmp_path: Path, server) -> None:
    lines_there(tmp_path, files=5)
    source = JsonLines(Remote(f"{server.url}/{{000..004}}.jsonl", cache=tmp_path / "cache"))
    stream = Stream(source, shuffle=0, interleave=1, records=250)
    stream.records(0, 0, 1)
    until = time.monotonic() + 60
    while server.gets["/001.jsonl"] == 0 and time.monotonic() < until:
        time.sleep(0.01)
    assert server.gets["/001.jsonl"] == 1
    assert server.gets["/004.jsonl"] == 0


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Remote("here.jsonl"), "'here.jsonl' is no address; write https://"),
        (lambda: Remote([]), r"a Remote was given \[\]; give it an address"),
        (lambda: Remote(None), "a Remote was given None; give it an address"),
        (lambda: Remote("https://h/a", gigabytes=float("inf")), "gigabytes = inf is no size of a cache; "),
        (lambda: Remote("https://h/a", tries=True), "tries = True is no number of tries; "),
        (lambda: Remote("https://h/a", gigabytes=0), "gigabytes = 0 is no size of a cache; "),
        (lambda: Remote("https://h/a", tries=0), "tries = 0 is no number of tries; "),
        (lambda: JsonLines("nonsense://h/a.jsonl"), "nonsense:// of nonsense://h/a.jsonl is unknown to fsspec; "),
    ],
)
def test_what_a_remote_refuses(make, text: str) -> None:
    with refused(text):
        Stream(make()).records(0, 0, 1)


def test_another_signature_is_the_same_data() -> None:
    def order(*addresses: str) -> list:
        return Stream(FileShards(Remote(list(addresses)), open), records=10).data_order()

    first = order("https://a/x/0.gz?sig=1", "https://a/x/1.gz?sig=1")
    assert first == order("https://b/y/0.gz?sig=2/3", "https://b/y/1.gz")
    assert first != order("https://a/x/0.gz?sig=1", "https://a/x/2.gz?sig=1")
