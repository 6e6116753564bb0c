"""The records of a source in memory: as long as they are wanted, so each shard is read once. Decoded records are counted."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline.streams import Shards, Stream
from paceline.streams.host_source import HostSource
from paceline.streams.window import Window

LEASE = 32


class Shared:
    """A set of shards that the workers of a host read. Each record goes into a file as it is decoded."""

    def __init__(self, folder: Path, sizes: list[int], sized: bool, workers: int, options: dict[str, int]) -> None:
        self._log = folder / "log"
        self._log.write_text("")
        self._sizes = sizes
        self._options = options
        source = Shards(
            [str(shard) for shard in range(len(sizes))], self._opened, length=self._length if sized else None
        )
        stream = Stream(source, **options)
        self.streams = [stream.reading(HostSource(source, f"window-{folder}", 1)) for _ in range(workers)]

    def _length(self, name: str) -> int:
        return self._sizes[int(name)]

    def _opened(self, name: str) -> Iterator[tuple[int, int]]:
        with open(self._log, "a", buffering=1) as log:
            for record in range(self._sizes[int(name)]):
                log.write("\n")
                yield int(name), record

    def decoded(self) -> int:
        return len(self._log.read_bytes())


ORDERS: list[dict[str, int]] = [{}, {"interleave": 16}, {"interleave": 64}, {"interleave": 32, "stride": 1}]


@pytest.mark.parametrize("sized", [False, True], ids=["unknown length", "known length"])
@pytest.mark.parametrize("options", ORDERS, ids=str)
def test_a_lone_reader_decodes_each_record_once_a_pass(tmp_path: Path, sized: bool, options: dict[str, int]) -> None:
    sizes = [500 + 31 * shard for shard in range(32)]
    shared = Shared(tmp_path, sizes, sized, 1, options)
    [stream] = shared.streams
    for number in range(2):
        found = [one for at in range(0, sum(sizes), LEASE) for one in stream.records(number, at, at + LEASE)]
        assert sorted(found) == [(shard, record) for shard, size in enumerate(sizes) for record in range(size)]
        assert shared.decoded() <= (number + 1) * sum(sizes)


@pytest.mark.parametrize("sized", [False, True], ids=["unknown length", "known length"])
@pytest.mark.parametrize("hosts", [1, 4])
def test_workers_of_a_host_whose_leases_come_in_any_order_decode_each_record_once(
    tmp_path: Path, sized: bool, hosts: int
) -> None:
    """With four hosts, three of four leases are asked for elsewhere."""
    sizes = [200 + 20 * shard for shard in range(50)]
    shared = Shared(tmp_path, sizes, sized, 3, {})
    draw = random.Random(1)
    leases = [(number, at) for number in range(2) for at in range(0, sum(sizes), LEASE)]
    for number, at in sorted(leases, key=lambda lease: lease[0] * sum(sizes) + lease[1] + draw.random() * 32 * LEASE):
        if draw.random() * hosts < 1:
            draw.choice(shared.streams).records(number, at, min(at + LEASE, sum(sizes)))
            if at % (8 * LEASE) == 0:
                time.sleep(0.001)  # the reader reads ahead
    assert shared.decoded() <= 2 * sum(sizes)


def test_a_resumed_run_reads_from_the_beginning_of_each_shard_once(tmp_path: Path) -> None:
    shared = Shared(tmp_path, [6000] * 8, False, 2, {})
    places = range(20_000, 48_000, LEASE)
    for at in places:
        shared.streams[at // LEASE % 2].records(0, at, at + LEASE)
    assert shared.decoded() == 48_000


def test_a_lease_of_a_dead_worker_leaves_the_others_where_they_are(tmp_path: Path) -> None:
    shared = Shared(tmp_path, [20_000] * 8, False, 2, {})
    for at in range(0, 40_000, LEASE):
        shared.streams[0].records(0, at, at + LEASE)
    before = shared.decoded()
    again = shared.streams[1].records(0, 320, 320 + LEASE)
    assert len(again) == LEASE
    assert shared.decoded() - before < 8 * 512 + 2 * 4096  # the beginnings of shards, and what is read ahead
    for at in range(40_000, 160_000, LEASE):
        shared.streams[0].records(0, at, at + LEASE)
    assert shared.decoded() <= 160_000 + 8 * 512


def put(window: Window, shard: int, records: range) -> None:
    for record in records:
        window.put(shard, record, (shard, record))


def kept(window: Window, shard: int) -> set[int]:
    found = set()
    for record in range(1000):
        try:
            assert window[shard, record] == (shard, record)
        except KeyError:
            continue
        found.add(record)
    return found


def test_given_records_go_first() -> None:
    window = Window(8)  # ten that were asked for
    put(window, 0, range(10))
    for record in (3, 1):
        window.give(0, record)
    put(window, 2, range(3))
    assert kept(window, 0) == {2, 4, 5, 6, 7, 8, 9} and kept(window, 2) == set(range(3))


def ahead(window: Window, shard: int, records: range) -> int:
    count = min(window.room(), len(records))
    for record in records[:count]:
        window.put_ahead(shard, record, (shard, record))
    return count


def test_records_ahead_put_none_out_that_were_asked_for() -> None:
    window = Window(8)
    put(window, 0, range(10))
    assert ahead(window, 0, range(10, 90)) == 4
    assert kept(window, 0) == set(range(14)) and len(window) == 14
    window.asks(0, 12)  # two of them are asked for now, and put the oldest two out
    assert kept(window, 0) == set(range(2, 14))
    assert ahead(window, 0, range(14, 90)) == 2


def test_records_ahead_of_a_shard_that_nobody_asks_for_any_more_make_room() -> None:
    window = Window(8)
    assert ahead(window, 7, range(4)) == 4
    put(window, 0, range(8))
    assert window.room() == 0
    put(window, 0, range(8, 9))
    assert window.room() == 4


def test_a_record_of_another_pass_counts_as_new() -> None:
    window = Window(8)
    put(window, 0, range(10))
    put(window, 0, range(1))
    put(window, 1, range(9))
    assert kept(window, 0) == {0}
    window = Window(8)
    put(window, 0, range(10))
    assert ahead(window, 0, range(1)) == 1
    put(window, 1, range(10))
    assert kept(window, 0) == {0}


def test_a_record_is_given_as_often_as_it_is_asked_for_while_it_is_here() -> None:
    window = Window(8)
    put(window, 0, range(1))
    values: list[Any] = [window.give(0, 0), window.give(0, 0)]
    assert values == [(0, 0)] * 2
    assert window.has(0, 0) and not window.has(0, 1)
