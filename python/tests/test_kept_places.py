"""Lengths and states of forward shards on the host's disk: a run that is resumed reads little again, and nothing wrong."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from stream_files import library

from paceline.errors import PacelineError
from paceline.streams import FileShards, HuggingFace, Mixture, Shards, Stream, said
from paceline.streams import host_source as host_source_module
from paceline.streams import kept_places as kept_places_module
from paceline.streams.host_source import HostSource, job_on_host
from paceline.streams.kept_places import KeptPlaces
from paceline.streams.with_readers import with_readers

RECORDS = 6000


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PACELINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(kept_places_module, "_PAUSE", 0)  # each state is written
    return tmp_path / "cache" / "places"


class Counting:
    """Numbers from `first` on, each of which goes into a file as it is read. It saves its place."""

    def __init__(self, first: int, log: Path) -> None:
        self.first, self.next = first, 0
        self.log = log

    def __iter__(self) -> Iterator[int]:
        with open(self.log, "a", buffering=1) as log:
            while self.next < RECORDS:
                print(self.first + self.next, os.getpid(), file=log)
                self.next += 1
                yield self.first + self.next - 1

    def state_dict(self) -> Any:
        return {"next": self.next}

    def load_state_dict(self, state: Any) -> None:
        self.next = state["next"]


class WithTuples(Counting):
    def state_dict(self) -> Any:
        return (self.next, {1: torch.tensor(self.next)})

    def load_state_dict(self, state: Any) -> None:
        (self.next, tensors) = state
        assert int(tensors[1]) == self.next


class WithoutPickle(Counting):
    def state_dict(self) -> Any:
        return {"next": self.next, "why": lambda: 0}


class Refusing(Counting):
    def load_state_dict(self, state: Any) -> None:
        self.next = 17
        raise KeyError("next")


class OtherVersion(Counting):
    """An object that takes a state of Counting, and goes on at another place."""

    def state_dict(self) -> Any:
        return {"next": 2 * self.next}

    def load_state_dict(self, state: Any) -> None:
        self.next = state["next"] // 2


class EndsAtOnce(Counting):
    """An object that takes a state without a word, and has no record after it."""

    def load_state_dict(self, state: Any) -> None:
        self.next = RECORDS


class BeginsAgain(Counting):
    """An object that begins again from a state at its end, as torchdata's Loader does."""

    def __iter__(self) -> Iterator[int]:
        self.next %= RECORDS
        return super().__iter__()


def source_of(kind: type[Counting], log: Path, names: tuple[str, ...] = ("0", "10000")) -> Shards:
    return Shards(names, lambda name: kind(int(name), log), window=1000)


def kept(source: Any, name: str = "run") -> Any:
    source.keep_places(name)
    return source


def read_in(log: Path) -> list[int]:
    lines = log.read_text().splitlines() if log.exists() else []
    return [int(line.split()[0]) for line in lines]


@pytest.mark.parametrize("kind", [Counting, WithTuples])
def test_the_readers_of_a_resumed_run_begin_at_the_nearest_state(tmp_path: Path, kind: type[Counting]) -> None:
    options = {"shuffle": 128, "interleave": 2, "stride": 4}
    expected = Stream(source_of(kind, tmp_path / "plain"), **options).records(0, 9000, 10_000)
    name = f"resumed-{tmp_path}"
    first = Stream(HostSource(source_of(kind, tmp_path / "log"), name, 2), **options)
    for begin in range(0, 9000, 500):
        first.records(0, begin, begin + 500)
    readers = {int(line.split()[1]) for line in (tmp_path / "log").read_text().splitlines()}
    assert len(readers) == 2 and os.getpid() not in readers
    for pid in readers:
        os.kill(pid, signal.SIGKILL)
    del first
    before = len(read_in(tmp_path / "log"))
    resumed = Stream(HostSource(source_of(kind, tmp_path / "log"), f"resumed-{tmp_path}", 2), **options)
    assert resumed.records(0, 9000, 9500) + resumed.records(0, 9500, 10_000) == expected
    again = read_in(tmp_path / "log")[before:]
    # The place is in record 4500 of each shard.
    assert {min(one for one in again if one // 10_000 == shard) for shard in range(2)} == {4000, 14_000}


def test_a_shard_that_a_run_has_read_to_its_end_is_not_read_again_for_its_length(tmp_path: Path) -> None:
    def opened(name: str) -> Iterator[int]:
        with open(tmp_path / "log", "a") as log:
            print(name, file=log)
        yield from range(int(name), int(name) + 50)

    names = [str(shard * 100) for shard in range(40)]
    options = {"shuffle": 20, "interleave": 2, "stride": 4}
    first = Stream(kept(Shards(names, opened)), **options)
    whole = [record for begin in range(0, 1000, 100) for record in first.records(0, begin, begin + 100)]
    (tmp_path / "log").unlink()
    resumed = Stream(kept(Shards(names, opened)), **options)
    assert resumed.records(0, 900, 1000) == whole[900:]
    assert len(read_in(tmp_path / "log")) <= 4  # two end before place 1000, and two begin
    assert len(list(resumed.epoch())) == 40 * 50


@pytest.mark.parametrize("records", [49, 51])
def test_a_shard_that_has_another_length_than_before_the_resume_is_named(tmp_path: Path, records: int) -> None:
    path = tmp_path / "data" / "a.txt"
    path.parent.mkdir()
    path.write_text("1\n" * 50)
    assert len(list(Stream(kept(FileShards(path.parent, open))).epoch())) == 50
    path.write_text("1\n" * records)
    with pytest.raises(PacelineError, match=rf"a.txt has {records} records now, and had 50; leave shards unchanged"):
        list(Stream(kept(FileShards(path.parent, open))).epoch())


@pytest.mark.parametrize("kind", ["generator", "with states", "cheap"])
def test_a_shard_that_took_long_and_cannot_save_its_place_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, kind: str
) -> None:
    monkeypatch.setattr(host_source_module, "_COSTLY_SECONDS", 1 << 40 if kind == "cheap" else 0)

    def source() -> Shards:
        if kind == "with states":
            return source_of(Counting, tmp_path / "log")
        return Shards(["first", "second"], lambda name: iter(range(RECORDS)))

    for _ in range(2):  # two workers of a host
        said._here.clear()
        shared = HostSource(source(), f"said-{kind}-{tmp_path}", 2)
        for record in (100, 200):
            assert shared.read(1, [record])[0] % 10_000 == record
    line = capsys.readouterr().err
    if kind == "generator":
        assert line.startswith("paceline: a shard of Shards(['first', …]) took more than 0 s, and what open= gives")
        assert line.endswith("; give the object state_dict() and load_state_dict(), or make many small shards\n")
        assert line.count("\n") == 1
    else:
        assert not line


def damage(places: Path, how: Callable[[bytes], bytes]) -> None:
    files = [file for file in places.iterdir() if not file.name.startswith("lock-")]
    assert len(files) == 2  # the lengths, and the states of one shard
    for file in files:
        file.write_bytes(how(file.read_bytes()))


@pytest.mark.parametrize(
    "how",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: bytes(len(data)),
        lambda data: data.replace(b"3000", b"3001").replace(b" 6000", b" 5000"),
        lambda data: data[:-1] + b"?",
    ],
)
def test_a_torn_file_is_no_file(tmp_path: Path, places: Path, how: Callable[[bytes], bytes]) -> None:
    assert kept(source_of(Counting, tmp_path / "log")).up_to(1, 1 << 40) == RECORDS
    damage(places, how)
    (tmp_path / "log").unlink()
    source = kept(source_of(Counting, tmp_path / "log"))
    assert source.up_to(1, 1 << 40) == RECORDS
    assert source.read(1, [3500]) == [13_500]
    assert read_in(tmp_path / "log")[:RECORDS] == list(range(10_000, 10_000 + RECORDS))


def test_states_of_a_file_that_another_user_could_write_are_not_taken(tmp_path: Path, places: Path) -> None:
    kept(source_of(WithTuples, tmp_path / "log")).up_to(1, 1 << 40)
    for file in places.iterdir():
        assert file.stat().st_mode & 0o077 == 0
        file.chmod(0o622)
    (tmp_path / "log").unlink()
    assert kept(source_of(WithTuples, tmp_path / "log")).read(1, [3500]) == [13_500]
    assert read_in(tmp_path / "log")[0] == 10_000


@pytest.mark.parametrize("kind", [Refusing, EndsAtOnce])
def test_a_state_that_an_object_does_not_take_is_left(tmp_path: Path, kind: type[Counting]) -> None:
    name = kind.__qualname__
    kind.__qualname__ = Counting.__qualname__  # the version seems to be the same
    try:
        kept(source_of(Counting, tmp_path / "log")).up_to(1, 5500)
        (tmp_path / "log").unlink()
        source = kept(source_of(kind, tmp_path / "log"))
        assert source.up_to(1, 5600) == 5600
        assert source.read(1, [3500, 5599]) == [13_500, 15_599]
        assert read_in(tmp_path / "log")[0] == 10_000
    finally:
        kind.__qualname__ = name


def test_states_of_another_version_are_left(tmp_path: Path) -> None:
    kept(source_of(Counting, tmp_path / "log")).up_to(1, 5500)
    (tmp_path / "log").unlink()
    assert kept(source_of(OtherVersion, tmp_path / "log")).read(1, [3500]) == [13_500]
    assert read_in(tmp_path / "log")[0] == 10_000


def test_a_state_that_cannot_be_written_is_not_kept(tmp_path: Path, places: Path) -> None:
    source = kept(source_of(WithoutPickle, tmp_path / "log"))
    assert source.up_to(1, 5500) == 5500
    assert source.read(1, [3500]) == [13_500]  # the state is in memory
    assert not places.exists() or not [file for file in places.iterdir() if not file.name.startswith("lock-")]


def test_a_place_that_cannot_be_written_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PACELINE_CACHE", str(tmp_path / "file"))
    for _ in range(2):
        assert kept(source_of(Counting, tmp_path / "log")).up_to(1, 1 << 40) == RECORDS


def test_no_state_is_kept_at_the_end_of_a_shard(tmp_path: Path) -> None:
    kept(source_of(BeginsAgain, tmp_path / "log")).up_to(1, RECORDS)
    assert kept(source_of(BeginsAgain, tmp_path / "log")).up_to(1, 1 << 40) == RECORDS


def test_states_of_another_run_or_another_file_are_not_taken(tmp_path: Path) -> None:
    def source() -> FileShards:
        return FileShards([tmp_path / "file"], lambda path: Counting(int(Path(path).read_text()), tmp_path / "log"))

    (tmp_path / "file").write_text("10000")
    kept(source()).up_to(0, 5500)
    (tmp_path / "log").unlink()
    assert kept(source()).read(0, [5500]) == [15_500]
    assert read_in(tmp_path / "log") == list(range(15_000, 15_501))
    assert kept(source(), "other").read(0, [5500]) == [15_500]
    assert read_in(tmp_path / "log")[501] == 10_000
    (tmp_path / "file").write_text("200000")
    (tmp_path / "log").unlink()
    assert kept(source()).read(0, [5500]) == [205_500]
    assert read_in(tmp_path / "log")[0] == 200_000


def test_runs_that_use_one_folder_of_a_host_one_after_the_other_share_nothing(tmp_path: Path) -> None:
    first = job_on_host(str(tmp_path), "job-1")
    assert job_on_host(str(tmp_path), "job-1") == first  # resumed
    assert job_on_host(str(tmp_path), "job-2") != first
    assert job_on_host("", "job-1") == ""


def test_what_is_read_from_the_disk_is_what_was_written(places: Path) -> None:
    for states in (
        [(1000, {"a": [1, 2.5, None, True, "x"]}), (2000, {"a": {"b": []}})],
        [(1000, (1, 2)), (2000, {3: {4}})],
    ):
        KeptPlaces("run").keep_states("shard", "1.0", states)
        assert repr(KeptPlaces("run").states("shard")) == repr(("1.0", states))
    assert KeptPlaces("run").states("other") == ("", [])


def test_lengths_that_two_write_at_the_same_time_are_apart(places: Path) -> None:
    one, two = KeptPlaces("run"), KeptPlaces("run")
    for shard in range(100):
        (one if shard % 2 else two).keep_length(str(shard), str(shard), shard)
    [file] = [file for file in places.iterdir() if not file.name.startswith("lock-")]
    file.write_bytes(file.read_bytes() + b"0123 4")  # its writer was killed
    one.keep_length("100", "100", 100)
    third = KeptPlaces("run")
    assert [third.length(str(shard)) for shard in range(102)] == [*range(101), None]


def test_states_take_little_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_places_module, "_PAUSE", 1 << 40)
    written: list[int] = []
    replace = kept_places_module.DiskCache.replace
    monkeypatch.setattr(kept_places_module.DiskCache, "replace", lambda *given: written.append(1) or replace(*given))
    assert kept(source_of(Counting, tmp_path / "log")).up_to(1, 5500) == 5500
    assert len(written) == 1  # none of the other four in the pause


def rows(numbers: list[int]) -> Iterator[dict[str, int]]:
    for number in range(numbers[0], numbers[0] + 6000):
        with open(os.environ["ROWS_LOG"], "a") as log:
            print(number, file=log)
        yield {"id": number}


def test_a_data_set_of_hugging_face_goes_on_from_its_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = library("datasets")
    monkeypatch.setenv("ROWS_LOG", str(tmp_path / "log"))

    def source() -> HuggingFace:
        return kept(HuggingFace(datasets.IterableDataset.from_generator(rows, gen_kwargs={"numbers": [0, 10_000]})))

    assert source().up_to(1, 5500) == 5500
    again = source()
    assert again.up_to(1, 5600) == 5600 and again.read(1, [5550, 5599]) == [{"id": 15_550}, {"id": 15_599}]
    assert again.up_to(1, 1 << 40) == RECORDS


def test_nodes_of_torchdata_go_on_from_their_states(tmp_path: Path) -> None:
    nodes = library("torchdata.nodes")
    log: list[int] = []

    def source() -> Shards:
        def opened(name: str) -> Any:
            numbers = range(int(name), int(name) + 6000)
            return nodes.Loader(nodes.Mapper(nodes.IterableWrapper(numbers), lambda one: log.append(one) or 2 * one))

        return kept(Shards(["0", "10000"], opened, window=500))

    assert source().up_to(1, RECORDS) == RECORDS
    log.clear()
    again = source()
    assert again.read(1, [5500, 5501]) == [31_000, 31_002]
    assert log[0] == 15_000 and again.up_to(1, 1 << 40) == RECORDS


# Mixtures


MIXED = {"a": ("0", "10000"), "b": ("20000", "30000", "40000")}


def mixture_of(log: Path, then: dict | None = None, keep: str = "") -> Any:
    def source(name: str) -> Any:
        one = Shards(MIXED[name], lambda shard: Counting(int(shard), log), length=lambda shard: RECORDS)
        return kept(one, f"{keep}-{name}") if keep else one

    return Mixture({"a": (source("a"), 1), "b": (source("b"), 2)}, then=then)


def read_all(stream: Stream, begin: int, end: int) -> list[int]:
    return [record for at in range(begin, end, 256) for record in stream.records(0, at, min(at + 256, end))]


def test_the_sources_of_a_mixture_share_readers_and_go_on_from_their_places_with_other_weights(
    tmp_path: Path,
) -> None:
    changed = {16384: {"a": 3, "b": 1}}
    expected = read_all(Stream(mixture_of(tmp_path / "plain", changed)), 0, 32_768)
    host = f"mixed-{os.getpid()}"
    workers = [with_readers(Stream(mixture_of(tmp_path / "log")), host, 1) for _ in range(2)]
    places = range(0, 16_384, 256)
    first = [one for at in places for one in workers[at // 256 % 2].records(0, at, at + 256)]
    pids = {int(line.split()[1]) for line in (tmp_path / "log").read_text().splitlines()}
    assert len(pids) == 2 and os.getpid() not in pids  # one reads a, and one b
    assert len(set(read_in(tmp_path / "log"))) == len(read_in(tmp_path / "log"))
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    del workers
    (tmp_path / "log").unlink()

    resumed = with_readers(Stream(mixture_of(tmp_path / "log", changed)), host, 1)
    second = read_all(resumed, 16_384, 32_768)
    assert first + second == expected
    # The block of a began at record 2048 of each shard, and that of b at record 2730.
    again = read_in(tmp_path / "log")
    begun = [next(one for one in again if one // 10_000 == shard) % 10_000 for shard in range(5)]
    assert begun == [2000] * 5
    assert_laps([one for one in first + second if one < 20_000], 12_000)
    assert_laps([one for one in first + second if one >= 20_000], 18_000)


def assert_laps(records: list[int], lap: int) -> None:
    """Each record comes once before one comes again. A block of the stream's order may have the ends of two laps."""
    counts = Counter(records)
    assert max(counts.values()) == -(-len(records) // lap)
    assert len(counts) == min(lap, len(records))


def test_a_source_of_a_mixture_that_keeps_too_few_records_is_refused() -> None:
    short = Shards(["0"], lambda name: iter(range(50)), length=lambda name: 50, window=1000)
    with pytest.raises(PacelineError, match="'a' in the Mixture keeps 1000 records in memory, and 8192 are needed; "):
        Mixture({"a": (short, 1)})
