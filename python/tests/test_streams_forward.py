"""Sources that are read forward."""

from __future__ import annotations

import collections
import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
from stream_files import everything, in_child, library, refused

from paceline.streams import FileShards, Shards, Stream
from paceline.streams.forward import Forward
from paceline.streams.window import Window

# Any files


def write_numbers(folder: Path, shards: int = 3, records: int = 50) -> list[bytes]:
    written = []
    for shard in range(shards):
        lines = [b"%d\n" % (shard * 10_000 + record) for record in range(records + shard)]
        with gzip.open(folder / f"{shard}.gz", "wb") as file:
            file.writelines(lines)
        written += lines
    return written


def test_file_shards_are_what_open_yields(tmp_path: Path) -> None:
    written = write_numbers(tmp_path)
    source = FileShards(tmp_path, gzip.open)
    assert everything(source) == written
    in_child(source)
    assert sorted(Stream(source, map=int).epoch()) == [int(one) for one in written]


def test_a_file_is_read_once_for_an_epoch_in_its_order(tmp_path: Path) -> None:
    written = write_numbers(tmp_path, records=20_000)
    opened: collections.Counter[str] = collections.Counter()

    def open_one(file: str):
        opened[file] += 1
        return gzip.open(file)

    stream = Stream(FileShards(tmp_path, open_one, length=lambda file: 20_000 + int(Path(file).stem)), interleave=2)
    samples = [one for begin in range(0, len(stream), 32) for one in stream.records(0, begin, begin + 32)]
    assert sorted(samples) == sorted(written)
    assert set(opened.values()) == {1}


def test_a_file_with_fewer_records_than_length_says_is_named(tmp_path: Path) -> None:
    write_numbers(tmp_path, shards=1)
    stream = Stream(FileShards(tmp_path, gzip.open, length=lambda file: 60))
    with refused("the shard .*0.gz has 50 records now, and had 60; "):
        list(stream.epoch())


def test_a_shard_with_more_records_than_length_says_is_named() -> None:
    source = Shards(["a", "b"], lambda name: range(60), length=lambda name: 60 if name == "a" else 50)
    stream = Stream(source, shuffle=16)
    for _ in range(2):
        with refused("the shard b has more records than the 50 that length= says; let it say the number of all"):
            list(stream.epoch())
    assert source.read(0, range(60)) == [*range(60)] and source.read(1, range(49)) == [*range(49)]
    assert not source.read_next(1, 0, 60, 60)  # ahead: it is for who asks for the last record to find the fault

    def damaged_behind(name: str) -> Iterator[int]:
        yield from range(60)
        raise EOFError

    assert Shards(["a"], damaged_behind, length=lambda name: 60).read(0, range(60)) == [*range(60)]


@pytest.mark.parametrize("where", ["in the generator", "behind a record"])
def test_an_interrupted_pass_leaves_the_next_one_whole(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Ctrl-C while somebody looks at the samples."""
    interrupts = [True]

    def numbers(name: str) -> Iterator[int]:
        for number in range(20):
            if number == 7 and where == "in the generator" and interrupts.pop():
                raise KeyboardInterrupt
            yield number

    put = Window.put

    def interrupted(window: Window, shard: int, record: int, value: int) -> None:
        if value == 7 and where == "behind a record" and interrupts and interrupts.pop():
            raise KeyboardInterrupt
        put(window, shard, record, value)

    monkeypatch.setattr(Window, "put", interrupted)
    stream = Stream(Shards(["all"], numbers), shuffle=0)
    with pytest.raises(KeyboardInterrupt):
        list(stream.epoch())
    interrupts.append(False)
    assert list(stream.epoch()) == [*range(20)]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    write_numbers(tmp_path, shards=1)
    whole = (tmp_path / "0.gz").read_bytes()
    (tmp_path / "0.gz").write_bytes(whole[: len(whole) // 2])
    with refused("the shard .*0.gz cannot be read: .*; repair it"):
        FileShards(tmp_path, gzip.open).up_to(0, 100)
    with refused("the shard .*0.gz cannot be read: .*; repair it"):
        FileShards(tmp_path, gzip.open, length=lambda file: 50).read(0, [49])


@pytest.mark.parametrize("length", [-1, 2.5, None])
def test_a_length_that_is_no_number_of_records_is_refused(length: object) -> None:
    source = Shards(["a"], lambda name: [1, 2, 3], length=lambda name: length)
    with refused(f"the length of the shard a is {length}; let what says it return a whole number from 0 up"):
        list(Stream(source).epoch())


def test_what_is_opened_has_to_have_records() -> None:
    with refused("open= of a source gave NoneType for a; let it give the shard's records"):
        list(Stream(Shards(["a"], lambda name: None)).epoch())


def test_a_file_that_grew_since_the_last_pass_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("1\n" * 100)
    stream = Stream(FileShards(tmp_path, open, window=2), shuffle=0, interleave=1)
    assert len(list(stream.epoch(0))) == 100
    path.write_text("1\n" * 101)
    with refused("a.txt has 202 bytes now, and had 200; leave shards unchanged"):
        list(stream.epoch(1))


def test_what_is_no_function_is_refused(tmp_path: Path) -> None:
    write_numbers(tmp_path, shards=1)
    with refused("open= of a source is int; give it a function of a name"):
        FileShards(tmp_path, 3)


def test_a_generator_is_one_shard() -> None:
    source = Shards(["all"], lambda name: iter(range(100)))
    assert sorted(Stream(source, shuffle=10).epoch()) == list(range(100))
    with refused("the names of shards are the text 'all'; write a list of names"):
        Shards("all", lambda name: iter(range(100)))


class Numbers(Forward):
    """One shard that can go on from each thousandth record."""

    def __init__(self) -> None:
        super().__init__(["numbers"], window=4096)
        self.begun: list[int] = []

    def _begin(self, shard: int, record: int):
        first = record // 1000 * 1000
        self.begun.append(first)
        return iter(range(first, 20_000)), first

    def length(self, shard: int) -> int:
        raise AssertionError("not known")


def test_a_record_that_was_passed_by_is_read_from_the_nearest_beginning() -> None:
    source = Numbers()
    assert source.read(0, [9000, 19_000]) == [9000, 19_000]
    assert source.read(0, [17_000, 18_999]) == [17_000, 18_999] and source.begun == [9000]
    assert source.read(0, [14_500, 14_501]) == [14_500, 14_501] and source.begun == [9000, 14_000]
    assert source.up_to(0, 30_000) == 20_000 and len(source._kept) < 2 * 4096


class Saving:
    """An iterable that can save its place."""

    def __init__(self, first: int, begun: list[int]) -> None:
        self.first, self.begun, self.next = first, begun, 0

    def __iter__(self):
        self.begun.append(self.next)
        while self.next < 6000:
            self.next += 1
            yield self.first + self.next - 1

    def state_dict(self) -> dict:
        return {"next": self.next}

    def load_state_dict(self, state: dict) -> None:
        self.next = state["next"]


def test_an_object_that_saves_its_place_is_read_again_from_the_nearest_state() -> None:
    begun: list[int] = []
    source = Shards(["0", "10000"], lambda name: Saving(int(name), begun), window=1000)
    assert source.up_to(1, 1 << 40) == 6000
    assert source.read(1, [10]) == [10_010]
    assert source.read(1, [4500]) == [14_500]
    assert source.read(1, [1500, 1501]) == [11_500, 11_501]
    assert begun == [0, 0, 4000, 1000]


def test_the_end_of_a_pass_and_the_begin_of_the_next_one_are_read_from_the_nearest_states() -> None:
    begun: list[int] = []
    source = Shards(["all"], lambda name: Saving(0, begun), window=100, length=lambda name: 6000)
    for record in range(50):
        assert source.read(0, [5100 + record, 5900 + record]) == [5100 + record, 5900 + record]
        assert source.read(0, [2 * record]) == [2 * record]
    assert set(begun) == {0, 5000}


def test_objects_that_share_a_part_give_their_own_records_after_a_step_back() -> None:
    class Over(Saving):
        """The part has the place, as a node of torchdata in several Loaders."""

        def __init__(self, part: Saving) -> None:
            self.part = part

        def __iter__(self):
            self.part.next = self.start
            while self.part.next < 6000:
                self.part.next += 1
                yield self.part.next - 1

        start = 0

        def state_dict(self) -> dict:
            return self.part.state_dict()

        def load_state_dict(self, state: dict) -> None:
            self.start = state["next"]

    part = Saving(0, [])
    source = Shards(["all"], lambda name: Over(part), window=100)
    for record in (4000, 2500, 4001, 4100, 1500, 4500, 10, 5999):
        assert source.read(0, [record]) == [record]


class Restarting:
    """This object has one place, which each loop moves to the begin."""

    def __iter__(self) -> Iterator[int]:
        self.next = 0
        return self

    def __next__(self) -> int:
        if self.next == 6000:
            raise StopIteration
        self.next += 1
        return self.next - 1


def test_an_object_that_is_opened_twice_gives_its_own_records_after_a_step_back() -> None:
    one = Restarting()
    source = Shards(["all"], lambda name: one, window=100)
    for record in (4000, 2500, 4001, 4100, 1500, 4500, 10, 5999):
        assert source.read(0, [record]) == [record]
    assert source.up_to(0, 10_000) == 6000
    rows = [*range(6000)]
    source = Shards(["all"], lambda name: rows, window=100)
    for record in (4000, 2500, 4001):
        assert source.read(0, [record]) == [record]
    assert len(source._readings[0]) == 2  # a list has no place


def test_one_iterator_for_two_shards_is_refused() -> None:
    one = Restarting()
    with refused(
        "open= of a source gave one iterator for [ab] and [ab], which are read in turn; let it make a new one"
    ):
        list(Stream(Shards(["a", "b"], lambda name: one)).epoch())
    rows = [1, 2, 3]
    assert [*Stream(Shards(["a", "b"], lambda name: rows), shuffle=0, stride=1).epoch()] == [1, 1, 2, 2, 3, 3]


def test_a_generator_that_has_begun_is_refused() -> None:
    records = (record for record in range(6000))
    source = Shards(["all"], lambda name: records, window=100)
    assert source.read(0, [4000]) == [4000]
    with refused(
        "open= of a source gave a generator for all that has begun already; let it make a new one each time"
    ):
        source.read(0, [2500])
    assert source.up_to(0, 10_000) == 6000
    with refused("that has begun already"):
        source.read(0, [0])


def test_a_long_shard_has_few_states() -> None:
    class Long(Saving):
        def __iter__(self):
            while self.next < 200_000:
                self.next += 1
                yield self.next - 1

    source = Shards(["0"], lambda name: Long(0, []), window=16)
    assert source.up_to(0, 1 << 40) == 200_000
    assert len(source._states[0].records()) <= 64
    assert source.read(0, [150_000]) == [150_000]


def test_states_of_shards_that_were_passed_long_ago_are_gone() -> None:
    begun: list[int] = []
    source = Shards([str(shard) for shard in range(200)], lambda name: Saving(0, begun), window=100)
    assert source.read(0, [1500]) == [1500]  # this shard is read all the time
    for shard in range(1, 200):
        assert source.up_to(shard, 1 << 40) == 6000
        assert source.read(0, [1500 + shard]) == [1500 + shard]
    assert len(source._states) <= 66
    begun.clear()
    for shard in (199, 150, 0):
        assert source.read(shard, [1300]) == [1300]
    assert begun == [1000] * 3
    assert source.read(1, [1300]) == [1300] and begun[3:] == [0]


def test_nodes_of_torchdata_are_read_again_from_the_nearest_state() -> None:
    nodes = library("torchdata.nodes")

    def opened(name: str):
        node = nodes.Mapper(nodes.IterableWrapper(range(int(name), int(name) + 3000)), lambda number: number * 2)
        return nodes.Loader(node)

    source = Shards(["0", "10000"], opened, window=500)
    assert [source.read(shard, range(3000)) for shard in range(2)] == [
        [2 * number for number in range(first, first + 3000)] for first in (0, 10_000)
    ]
    assert source.read(1, [1500, 1501]) == [23_000, 23_002]
    assert source.read(1, [2]) == [20_004]
    node = nodes.IterableWrapper(range(6000))
    shared = Shards(["all"], lambda name: nodes.Loader(node), window=100)
    for record in (4000, 2500, 4001, 10, 5999):
        assert shared.read(0, [record]) == [record]


class _OneState:
    """Its state is one dictionary, which it changes as it goes on and takes over as its own."""

    def __init__(self) -> None:
        self.state = {"next": 0}

    def __iter__(self):
        while self.state["next"] < 5000:
            self.state["next"] += 1
            yield self.state["next"] - 1

    def state_dict(self) -> dict:
        return self.state

    def load_state_dict(self, state: dict) -> None:
        self.state = state


def test_a_saved_state_stays_as_it_was_when_its_object_goes_on() -> None:
    source = Shards(["all"], lambda name: _OneState(), window=100)
    for record in (4000, 2500, 2400, 2500):  # the second time, the object went on from the first one's state
        assert source.read(0, [record]) == [record]
