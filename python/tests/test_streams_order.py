"""The order of a stream, beside a second implementation that makes the list of all records."""

from __future__ import annotations

import itertools
import time

import pytest

from paceline.errors import PacelineError
from paceline.seeding import mix
from paceline.streams.order import StreamOrder
from paceline.streams.shuffling import shuffled


def permutation(n: int, key: int) -> list[int]:
    """A second implementation, with Python's own numbers."""
    mask = 2**64 - 1

    def number(i: int) -> int:
        value = (key + (i + 1) * 0x9E3779B97F4A7C15) & mask
        value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & mask
        value = (value ^ (value >> 27)) * 0x94D049BB133111EB & mask
        value ^= value >> 31
        return value - 2**64 if value >> 63 else value

    return sorted(range(n), key=number)


def whole_epoch(lengths, epoch, seed, shuffle, interleave, stride):
    """Every turn of every slot, one by one."""
    waiting = permutation(len(lengths), mix(seed, epoch)) if shuffle else list(range(len(lengths)))
    slots = [(None, 0)] * interleave
    order = []
    while True:
        given = 0
        for slot, (shard, record) in enumerate(slots):
            while (shard is None or record == lengths[shard]) and waiting:
                shard, record = waiting.pop(0), 0
            if shard is not None:
                piece = range(record, min(record + stride, lengths[shard]))
                order += [(shard, one) for one in piece]
                given += len(piece)
                record = piece.stop if piece else record
            slots[slot] = shard, record
        if not given:
            break
    if not shuffle:
        return order
    blocks = [order[at : at + shuffle] for at in range(0, len(order), shuffle)]
    return [
        block[at] for number, block in enumerate(blocks) for at in permutation(len(block), mix(seed, epoch, number))
    ]


def order_of(lengths, **options):
    return StreamOrder(len(lengths), lengths.__getitem__, **options)


LENGTHS = [
    [0],
    [1],
    [5],
    [0, 0, 0],
    [0, 3, 0, 0, 7, 0],
    [16, 16, 16],
    [1] * 12,
    [40, 1, 2, 0, 33, 17, 16, 15, 5, 0, 8],
    *([a, b, c] for a, b, c in itertools.product((0, 1, 2, 5), repeat=3)),
]


@pytest.mark.parametrize("interleave", range(1, 10))
@pytest.mark.parametrize("stride", [1, 2, 3, 16])
def test_is_the_same_as_the_list_of_all(interleave: int, stride: int) -> None:
    for lengths, shuffle, epoch in itertools.product(LENGTHS, (0, 1, 4, 7, 4096), (0, 3)):
        options = {"seed": 11, "shuffle": shuffle, "interleave": interleave, "stride": stride}
        expected = whole_epoch(lengths, epoch, **options)
        total = sum(lengths)
        assert sorted(expected) == [(shard, one) for shard, length in enumerate(lengths) for one in range(length)]
        assert order_of(lengths, **options).places(epoch, 0, total + 5) == expected
        assert order_of(lengths, **options).length(epoch) == total


@pytest.mark.parametrize("shuffle", [0, 10])
def test_is_the_same_by_any_ranges(shuffle: int) -> None:
    lengths = [40, 1, 2, 0, 33, 17, 16, 15, 5, 0, 8]
    options = {"seed": 5, "shuffle": shuffle, "interleave": 3, "stride": 4}
    expected = whole_epoch(lengths, 1, **options)
    order = order_of(lengths, **options)
    for begin in reversed(range(len(expected))):
        for end in (begin, begin + 1, begin + 9, begin + 50):
            assert order_of(lengths, **options).places(1, begin, end) == expected[begin:end]
            assert order.places(1, begin, end) == expected[begin:end]


def test_permutations_are_those_of_the_other_implementation() -> None:
    for n in (0, 1, 2, 3, 100, 4097):
        for key in (0, 1, 2**63, 2**64 - 1):
            assert shuffled(n, key) == permutation(n, key)
    # Numbers that must never change: the order of a job that goes on under a later version.
    assert shuffled(8, mix(1, 2)) == [0, 4, 2, 7, 3, 1, 5, 6]


def test_depends_on_seed_and_epoch() -> None:
    lengths = [100, 100, 100]
    orders = {
        tuple(order_of(lengths, seed=seed, shuffle=50).places(epoch, 0, 300)) for seed in (0, 1) for epoch in (0, 1)
    }
    assert len(orders) == 4


def test_asks_only_for_the_lengths_it_needs() -> None:
    asked: list[int] = []

    def length(shard: int) -> int:
        asked.append(shard)
        return 100

    order = StreamOrder(50, length, shuffle=0, interleave=4, stride=10)
    order.places(0, 0, 399)
    assert asked == [0, 1, 2, 3]
    assert order.known_length(0) is None
    order.places(0, 400, 401)
    assert asked == [0, 1, 2, 3, 4, 5, 6, 7]
    assert order.length(0) == 5000 and len(asked) == 50
    assert order.known_length(0) == 5000


def test_a_range_costs_no_walk_over_the_records() -> None:
    # 10^9 records would take minutes one by one; this limit is for a slow machine.
    order = StreamOrder(100_000, lambda shard: 10_000 + shard % 7, interleave=8)
    began = time.process_time()
    total = order.length(0)
    places = order.places(0, total - 10_000, total)
    assert total > 10**9 and len(set(places)) == 10_000
    assert time.process_time() - began < 60


@pytest.mark.parametrize(
    "options", [{"interleave": 0}, {"stride": 0}, {"shuffle": -1}, {"stride": 2.0}, {"shuffle": True}]
)
def test_refuses_what_is_no_number(options: dict) -> None:
    with pytest.raises(PacelineError, match=f"{next(iter(options))} = .*; write"):
        order_of([1], **options)


def test_refuses_what_is_no_range() -> None:
    for begin, end in ((-1, 2), (3, 2)):
        with pytest.raises(PacelineError, match="is no range of positions; "):
            order_of([1]).places(0, begin, end)
