"""The samples of leases of a stream, against a list of all that the run has."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Callable

import pytest

from paceline.errors import PacelineError
from paceline.loading import Load, make_loader
from paceline.streams import Shards, Stream
from paceline.streams.leased import Leased


class Numbers:
    """A stream of the numbers from 0 on, whose length shows when somebody comes to its end."""

    def __init__(self, records: int, epoch_records: int, open_end: bool) -> None:
        self._records = records
        self.epoch_records = epoch_records
        self.open_end = open_end
        self.known_records = None if open_end else records
        self.map: Callable[[Any], Any] | None = None
        self.keep: Callable[[Any], bool] | None = None
        self.pack: Callable[[list[Any]], list[Any]] | None = None
        self.seeded: int | None = None

    def seed(self, value: int) -> None:
        self.seeded = value

    def records(self, number: int, begin: int, end: int) -> list[str]:
        if end > self._records:
            self.known_records = self._records
        return [f"{number}.{record}" for record in range(begin, min(end, self._records))]

    def ends_at(self, number: int, place: int) -> None:
        if place >= self._records:
            self.known_records = self._records


def all_of(records: int, passes: float) -> list[str]:
    total = max(1, int(passes * records + 0.5))
    return [f"{place // records}.{place % records}" for place in range(total)]


@pytest.mark.parametrize("passes", [1, 2, 3, 1.5])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_an_open_end_is_found_by_the_lease_that_reaches_it(passes: float, size: int) -> None:
    for records in range(1, 10):
        expected = all_of(records, passes)
        for unit in (3, 4, 100):
            leased = Leased(Numbers(records, unit, open_end=True), 7, passes)
            seen, place = [], 0
            while place < len(expected) + 3 * size:
                epoch, begin = divmod(place, unit)
                end = min(begin + size, unit)
                samples, data_end = leased.draw(epoch, range(begin, end))
                seen += samples
                place += end - begin
                assert data_end == (len(expected) if place >= len(expected) else None)
            assert seen == expected


def test_a_lease_with_a_scrap_has_the_records_of_both_runs() -> None:
    stream = Numbers(10, 100, open_end=True)
    stream.pack = lambda samples: ["+".join(samples)]
    places: list[int] = []
    leased = Leased(stream, 7, 1)
    assert leased.draw(0, [2, 5, 6], places.append) == (["0.2+0.5+0.6"], None)
    assert places == [2, 5, 6]
    assert leased.draw(0, [3, 8, 9, 10, 11]) == (["0.3+0.8+0.9"], 10)


def test_leases_may_come_in_any_order() -> None:
    expected = all_of(10, 2)
    leased = Leased(Numbers(10, 100, open_end=True), 7, 2)
    assert leased.draw(0, range(12, 16)) == (expected[12:16], None)
    assert leased.draw(0, range(3, 6)) == (expected[3:6], None)
    assert leased.draw(0, range(18, 24)) == (expected[18:], 20)
    assert leased.draw(0, range(24, 30)) == ([], 20)


def test_an_epoch_of_a_known_length_may_be_a_part_of_a_pass_or_more() -> None:
    for records, unit in ((10, 4), (4, 10), (7, 7)):
        leased = Leased(Numbers(records, unit, open_end=False), 7, 1)
        expected = all_of(records, 4 * unit / records)
        drawn = [leased.draw(epoch, range(0, unit)) for epoch in range(4)]
        assert [sample for samples, _ in drawn for sample in samples] == expected
        assert {end for _, end in drawn} == {None}


def test_records_are_dropped_mapped_and_packed_and_each_has_its_own_seed() -> None:
    stream = Numbers(10, 10, open_end=False)
    stream.keep = lambda record: record != "0.3"
    stream.map = lambda record: record + "!"
    stream.pack = lambda samples: ["+".join(samples)]
    places: list[int] = []
    assert Leased(stream, 7, 1).draw(0, range(2, 5), places.append) == (["0.2!+0.4!"], None)
    assert places == [2, 3, 4]
    assert stream.seeded == 7


def test_a_stream_without_records_is_refused() -> None:
    with pytest.raises(PacelineError, match="has no records; give join"):
        Leased(Numbers(0, 10, open_end=True), 7, 1).draw(0, range(0, 2))


class _ByEpoch(Stream):
    def set_epoch(self, epoch: int) -> None:
        self.map = lambda record: (record, epoch)


@pytest.mark.parametrize("processes", [0, 1])
@pytest.mark.parametrize("host", ["", "a host"], ids=["alone", "with readers"])
def test_functions_that_are_set_later_make_the_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, processes: int
) -> None:
    monkeypatch.setenv("PACELINE_CACHE", str(tmp_path))
    host = host and f"{host} {tmp_path}"
    stream = _ByEpoch(Shards(["all"], lambda name: range(20)), shuffle=0, records=20)
    loads = make_loader(stream, list, {"num_workers": processes}, epochs=5, host=host)
    for epoch in range(2):
        assert loads.get(Load((0, 1, 2), 5, epoch)).batch == [(record, epoch) for record in range(3)]
    loads.close()

    stream = Stream(Shards(["all"], lambda name: range(20)), shuffle=0, records=20)
    loads = make_loader(stream, list, {}, epochs=5, host=host)
    stream.map, stream.keep, stream.pack = float, lambda record: record % 3 != 0, lambda samples: [sum(samples)]
    assert loads.get(Load((0, 1, 2), 5)).batch == [3.0]
    stream.map, stream.keep, stream.pack = lambda record: random.random(), None, None
    random.seed(5)
    first = loads.get(Load((0, 1, 2), 5)).batch
    assert loads.get(Load((0, 1, 2), 5)).batch == first
    loads.close()


@pytest.mark.parametrize("name", ["keep", "pack"])
def test_a_function_that_leaves_samples_out_is_refused_later_if_batches_are_whole(name: str) -> None:
    stream = Stream(Shards(["all"], lambda name: range(20)), shuffle=0, records=20)
    loads = make_loader(stream, list, {}, whole=True)
    stream.map = float
    assert loads.get(Load((0, 1), 5)).batch == [0.0, 1.0]
    setattr(stream, name, lambda one: one)
    with pytest.raises(PacelineError, match=r"has set keep or pack of its stream since join\(\), .*; leave both out"):
        loads.get(Load((2, 3), 5))
