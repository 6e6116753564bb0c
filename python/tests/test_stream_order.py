"""The order of a stream, against a second implementation that builds lists."""

from __future__ import annotations

import itertools
import random
import tracemalloc
from collections.abc import Iterator

import pytest

from paceline.seeding import mix
from paceline.streams.order import Pass
from paceline.streams.shuffling import permuted


def plain_order(lengths: list[int], order: list[int], interleave: int, stride: int) -> list[tuple[int, int]]:
    waiting = list(order)
    slots: list[list[tuple[int, int]] | None] = [[] for _ in range(interleave)]
    found: list[tuple[int, int]] = []
    while any(slot is not None for slot in slots):
        for at, slot in enumerate(slots):
            if slot is None:
                continue
            while not slot and waiting:
                shard = waiting.pop(0)
                slot = [(shard, record) for record in range(lengths[shard])]
            if not slot:
                slots[at] = None
                continue
            found += slot[:stride]
            slots[at] = slot[stride:]
    return found


def order_of(lengths: list[int], sized: bool, shuffle: int, interleave: int, stride: int, seed: int = 3) -> Pass:
    return Pass(
        len(lengths), lambda shard, most: min(lengths[shard], most), sized, seed, 0, shuffle, interleave, stride
    )


@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize("shuffle", [0, 1, 5, 64])
def test_small_streams_have_the_order_of_the_lists(sized: bool, shuffle: int) -> None:
    for lengths in itertools.product((0, 1, 3, 7), repeat=3):
        for interleave, stride in itertools.product((1, 2, 3, 9), (1, 2, 4)):
            order = permuted(3, 3, 1, 0).tolist() if shuffle else [0, 1, 2]
            base = plain_order(list(lengths), order, interleave, stride)
            found = order_of(list(lengths), sized, shuffle, interleave, stride)
            all_places = found.places(0, len(base) + 3)
            assert found.size == len(base)
            assert sorted(all_places) == sorted(base)
            for first in range(0, len(base), shuffle or 1):
                block = base[first : first + (shuffle or 1)]
                assert sorted(all_places[first : first + len(block)]) == sorted(block)
                if shuffle <= 1:
                    assert all_places[first : first + len(block)] == block


@pytest.mark.parametrize("sized", [True, False])
def test_any_pieces_have_the_order_of_the_whole(sized: bool) -> None:
    lengths = [50, 0, 3, 200, 17, 1, 90]
    whole = order_of(lengths, sized, 32, 3, 4).places(0, 1000)
    draws = random.Random(1)
    for _ in range(50):
        pieces = order_of(lengths, sized, 32, 3, 4)
        for _ in range(20):
            begin = draws.randrange(0, 380)
            end = begin + draws.randrange(0, 60)
            assert pieces.places(begin, end) == whole[begin:end]
            assert pieces.ends_at(end) == (end >= len(whole))


def test_another_seed_or_pass_is_another_order() -> None:
    lengths = [40] * 5
    first = order_of(lengths, True, 64, 2, 4).places(0, 200)
    assert order_of(lengths, True, 64, 2, 4, seed=4).places(0, 200) != first
    assert sorted(order_of(lengths, True, 64, 2, 4, seed=4).places(0, 200)) == sorted(first)


def test_shards_of_unknown_length_are_read_no_further_than_needed() -> None:
    asked: dict[int, int] = {}

    def up_to(shard: int, most: int) -> int:
        asked[shard] = max(asked.get(shard, 0), most)
        return min(1000, most)

    order = Pass(10, up_to, False, 3, 0, 32, 2, 4)
    order.places(0, 32)
    assert len(asked) == 2
    assert max(asked.values()) <= 24


def test_a_permutation_is_the_same_for_ever() -> None:
    mask = (1 << 64) - 1

    def key(number: int) -> int:
        word = ((number + 1) * 0x9E3779B97F4A7C15 + mix(1, 2, 3)) & mask
        word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & mask
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & mask
        word ^= word >> 31
        return word - (1 << 64) if word >> 63 else word

    assert permuted(1000, 1, 2, 3).tolist() == sorted(range(1000), key=key)
    assert permuted(10, 1, 2, 3).tolist() == [3, 4, 1, 6, 9, 5, 0, 7, 2, 8]
    assert sorted(permuted(1000, 7).tolist()) == list(range(1000))


def test_a_million_shards_cost_nothing_before_they_are_read() -> None:
    asked = []

    def up_to(shard: int, most: int) -> int:
        asked.append(shard)
        return min(1, most)

    order = Pass(1_000_000, up_to, True, 3, 0, 4096, 8, 16)
    assert len(order.places(0, 32)) == 32
    assert len(set(asked)) < 5000


@pytest.mark.parametrize("sized", [True, False])
def test_a_shard_that_was_passed_takes_few_bytes(sized: bool) -> None:
    """A set may have millions."""
    draws = random.Random(1)
    lengths = [draws.randrange(60) for _ in range(4000)]
    order = order_of(lengths, sized, 4096, 8, 4)
    tracemalloc.start()
    try:
        for begin in range(0, sum(lengths) + 500, 500):  # a job asks in pieces
            order.ends_at(begin)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert order.size == sum(lengths)
    assert taken < 150 * len(lengths)


@pytest.mark.parametrize("sized", [True, False])
def test_a_shard_that_could_not_be_read_once_changes_no_order(sized: bool) -> None:
    lengths = [5, 0, 3, 20, 17, 1, 9]
    whole = order_of(lengths, sized, 8, 3, 2).places(0, 60)
    for failed in itertools.count():
        calls = itertools.count()

        def up_to(shard: int, most: int, failed: int = failed, calls: Iterator[int] = calls) -> int:
            if next(calls) == failed:
                raise ConnectionError
            return min(lengths[shard], most)

        order = Pass(len(lengths), up_to, sized, 3, 0, 8, 3, 2)
        found: list[tuple[int, int]] = []
        raised = 0
        while len(found) < len(whole):
            try:
                found += order.places(len(found), len(found) + 4)
            except ConnectionError:
                raised += 1
        assert found == whole, failed
        if not raised:
            break
    assert failed > 20
