"""Mixtures of sources that are read forward."""

from __future__ import annotations

import numpy as np
import pytest
from stream_files import everything, refused
from test_streams import Lists, lists

from paceline.streams import Mixture, Shards, Stream


def test_other_weights_hold_from_their_record_on() -> None:
    """A list of the sources' names by position is the second implementation."""
    changes = {4096: {"a": 1, "b": 7}, 3 * 4096: {"a": 3, "b": 1}}
    before = Mixture({"a": (lists(6000), 1), "b": (Lists(list(range(-9000, 0))), 1)}, seed=3)
    mixture = Mixture({"a": (lists(6000), 1), "b": (Lists(list(range(-9000, 0))), 1)}, seed=3, then=changes)
    assert mixture.read(0, range(4096)) == before.read(0, range(4096))
    found = [mixture.read(shard, range(mixture.length(shard))) for shard in range(len(mixture.shards()))]
    for part, share in enumerate([2048, 512, 512]):
        assert sum(one >= 0 for one in found[part]) == share
    assert abs(sum(one >= 0 for one in found[3]) / len(found[3]) - 0.75) < 0.05
    flat = [one for part in found for one in part]
    assert set(flat) == {*range(6000), *range(-9000, 0)}
    for of_one in ([one for one in flat if one >= 0], [one for one in flat if one < 0]):
        count = len(set(of_one))
        assert len(set(of_one[:count])) == count  # no record comes twice before all came
    assert [begin for begin, _ in mixture.order()] == [0, 4096, 3 * 4096]


def test_lengths_of_numpy_are_the_same_data() -> None:
    class Numbered(Lists):
        def length(self, shard: int) -> int:
            return np.int64(super().length(shard))  # type: ignore[return-value]

    records = list(range(3000))
    plain, numbered = Mixture({"a": (Lists(records), 1)}, 5), Mixture({"a": (Numbered(records), 1)}, np.int64(5))
    assert "3000" in plain.order()[0][1] and numbered.order() == plain.order()


def test_weights_behind_the_end_of_a_pass_change_nothing() -> None:
    sources = {"a": (lists(3000), 1), "b": (lists(3000), 1)}
    late = Stream(Mixture(sources, then={1 << 20: {"a": 1, "b": 5}}))
    assert late.data_order() == Stream(Mixture(sources)).data_order()
    assert list(late.epoch()) == list(Stream(Mixture(sources)).epoch())


def test_a_mixture_that_would_not_end_is_refused() -> None:
    class Long:
        def shards(self) -> list[str]:
            return ["all"]

        def length(self, shard: int) -> int:
            return 10**9

        def read(self, shard: int, records) -> list:
            return list(records)

    with refused("a pass of the Mixture has [0-9]+ records .*; give the largest source more weight"):
        Mixture({"long": (Long(), 1), "short": (lists(1), 4000)})


def test_a_mixture_gives_another_order_in_another_pass() -> None:
    mixture = Mixture({"a": (lists(3000), 1), "b": (lists(3000), 1)})
    first, second = (list(Stream(mixture).epoch(number)) for number in range(2))
    assert first != second and len(first) == len(second)
    assert Stream(mixture).records(0, 0, 4096) != Stream(mixture).records(1, 0, 4096)


@pytest.mark.parametrize(
    ("then", "text"),
    [
        ({0: {"a": 1, "b": 1}}, "no multiple of 4096; write 4096"),
        ({5000: {"a": 1, "b": 1}}, "no multiple of 4096; write 8192"),
        ({4096: {"a": 1}}, "has weights for 'a'; write one for each of 'a', 'b'"),
        ([4096], r"is not \{record: \{name: weight\}\}; "),
        ({"4096": {"a": 1, "b": 1}}, r"is not \{record: \{name: weight\}\}; "),
        ({4096: [1, 1]}, r"is not \{record: \{name: weight\}\}; "),
        ({4096 * (1 + at): {"a": 1, "b": 1} for at in range(201)}, "has 201 changes; write at most 200"),
        ({4096: {"a": 1, "b": 0}}, "the weight of 'b' is 0; write a number above 0"),
    ],
)
def test_weights_that_no_mixture_can_change_to_are_refused(then: dict, text: str) -> None:
    with refused(text):
        Mixture({"a": (lists(10), 1), "b": (lists(10), 1)}, then=then)


@pytest.mark.parametrize("weights", [(1, 1), (1, 3), (0.1, 0.9)])
def test_a_mixture_has_each_record_and_the_weights(weights: tuple[float, float]) -> None:
    source = Mixture({"a": (lists(3000, 2000), weights[0]), "b": (Lists(list(range(-7000, 0))), weights[1])}, seed=3)
    whole = everything(source)
    first = [one for one in whole if one >= 0]
    second = [one for one in whole if one < 0]
    assert (
        set(first) == set(lists(3000, 2000).lists[0]) | set(lists(3000, 2000).lists[1]) and len(set(second)) == 7000
    )
    assert len(first) / len(whole) == pytest.approx(weights[0] / sum(weights), abs=0.01)
    # The longest for its weight is read once; the other one again from its beginning, once a lap.
    assert len(second) == 7000 or len(first) == 5000
    assert len(second) == 7000 or sorted(second[:7000]) == list(range(-7000, 0))
    assert Stream(source, shuffle=0).records(0, 100, 300) == whole[100:300] or len(source.shards()) > 1


def test_a_source_that_begins_again_has_another_order() -> None:
    whole = everything(Mixture({"a": (lists(100), 1), "b": (Lists(list(range(-1000, 0))), 1)}))
    first = [one for one in whole if one >= 0]
    assert sorted(first[:100]) == sorted(first[100:200]) == list(range(100)) and first[:100] != first[100:200]


def test_the_seed_says_which_source_has_its_turn() -> None:
    def turns(seed: int) -> list[bool]:
        return [
            one < 0 for one in Mixture({"a": (lists(50), 1), "b": (Lists([-1] * 50), 1)}, seed).read(0, range(60))
        ]

    assert turns(1) == turns(1) != turns(2)


def dictionaries(name: str):
    return ({"number": number} for number in range(10))


def write_to(record: dict) -> dict:
    record["number"] += 100
    return record


def test_what_map_writes_to_a_record_does_not_stay_in_it() -> None:
    stream = Stream(Shards(["a"], dictionaries), map=write_to)
    for number in range(3):
        assert sorted(one["number"] for one in stream.epoch(number)) == list(range(100, 110))
    few = Shards(["a"], dictionaries, length=lambda name: 10)
    mixed = Stream(
        Mixture({"few": (few, 1), "many": (lists(100), 1)}),
        map=lambda one: write_to(one) if isinstance(one, dict) else one,
    )
    found = [one["number"] for one in mixed.epoch() if type(one) is dict]
    assert len(found) > 10 and set(found) == set(range(100, 110))


def test_a_mixture_of_other_seed_is_another_one() -> None:
    def read(seed: int) -> list:
        return Mixture({"a": (lists(50), 1), "b": (lists(70), 1)}, seed).read(0, range(90))

    assert read(1) == read(1) != read(2)


@pytest.mark.parametrize(
    ("sources", "text"),
    [
        ({}, "given no sources; "),
        ({"a": lists(1)}, r"'a' in the Mixture is Lists; write \(source, weight\)"),
        ({"a": (lists(1), 0)}, "the weight of 'a' is 0; write a number above 0"),
        ({"a": (lists(0), 1)}, "'a' in the Mixture has no records; "),
        ({"a": (lists(1), 1), "b": (lists(1), 1e-9)}, "the weight of 'b' is below 1/4096 of all; "),
    ],
)
def test_a_bad_mixture_is_refused(sources: dict, text: str) -> None:
    with refused(text):
        Mixture(sources)
