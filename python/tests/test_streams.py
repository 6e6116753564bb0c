"""Stream over a source in memory."""

from __future__ import annotations

import pickle

import pytest
import torch
from stream_files import refused

from paceline.errors import PacelineError
from paceline.streams import Source, Stream


class Lists:
    """A source of lists that counts its reads."""

    def __init__(self, *lists: list) -> None:
        self.lists = lists
        self.reads: list[tuple[int, list[int]]] = []

    def shards(self) -> list[str]:
        return [f"list {number}" for number in range(len(self.lists))]

    def length(self, shard: int) -> int:
        return len(self.lists[shard])

    def read(self, shard: int, records) -> list:
        self.reads.append((shard, list(records)))
        return [self.lists[shard][record] for record in records if record < len(self.lists[shard])]


def lists(*lengths: int) -> Lists:
    return Lists(*([1000 * number + record for record in range(length)] for number, length in enumerate(lengths)))


def test_gives_every_record_once_in_the_same_order_by_any_ranges() -> None:
    stream = Stream(lists(30, 0, 41, 7), shuffle=16, interleave=2, stride=4)
    assert isinstance(stream.source, Source) and len(stream) == 78
    whole = stream.records(2, 0, 78)
    assert sorted(whole) == [*range(30), *range(2000, 2041), *range(3000, 3007)] and whole != sorted(whole)
    other = pickle.loads(pickle.dumps(stream))
    for step in (1, 5, 16, 50):
        assert [
            one for begin in range(0, 78, step) for one in other.records(2, begin, min(begin + step, 78))
        ] == whole
    assert list(other.epoch(2)) == whole
    assert stream.records(2, 78, 90) == [] and stream.records(2, 70, 90) == whole[70:]


def test_the_seed_names_the_order() -> None:
    stream = Stream(lists(100))
    first = stream.records(0, 0, 100)
    stream.seed(1)
    assert stream.records(0, 0, 100) != first != stream.records(1, 0, 100)
    stream.seed(0)
    assert stream.records(0, 0, 100) == first


def test_reads_each_shard_once_and_in_ascending_order() -> None:
    source = lists(50, 50, 50)
    Stream(source).records(0, 0, 150)
    assert sorted(shard for shard, _ in source.reads) == [0, 1, 2]
    assert all(records == sorted(records) for _, records in source.reads)


def test_keep_leaves_out_and_map_and_pack_make_samples() -> None:
    pairs = Stream(
        lists(10), shuffle=0, keep=lambda one: one % 2 == 0, map=lambda one: one * 10, pack=lambda all: [all]
    )
    assert list(pairs.epoch()) == [[0, 20, 40, 60, 80]]


def test_a_declared_epoch_asks_for_no_more_lengths_than_it_reads() -> None:
    class Unasked(Lists):
        def length(self, shard: int) -> int:
            assert shard == 0, "asked"
            return super().length(shard)

    stream = Stream(Unasked([1, 2], [3]), records=2, interleave=1, stride=1, shuffle=0)
    assert stream.epoch_records == 2
    assert not stream.open_end
    assert stream.records(0, 0, 2) == [1, 2]


def test_a_shard_that_shrank_is_one_line() -> None:
    source = lists(10)
    stream = Stream(source, shuffle=0)
    assert len(stream) == 10
    del source.lists[0][6:]
    with pytest.raises(PacelineError, match="the shard list 0 has 6 records now, and had 10; leave shards unchanged"):
        stream.records(0, 4, 8)


def test_says_what_it_is() -> None:
    stream = Stream(lists(1, 2), map=str, interleave=4)
    assert repr(stream) == "Stream(Lists of 2 shards, shuffle=4096, interleave=4, stride=16, map=str)"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Stream([1, 2]),
        lambda: Stream(Lists()),
        lambda: Stream(lists(1), map=3),
        lambda: Stream(lists(1), shuffle=-1),
        lambda: Stream(lists(1), interleave=0),
    ],
)
def test_refuses_in_one_line_with_a_way_out(make) -> None:
    with pytest.raises(PacelineError, match="^[^\n]*; [^\n]*$"):
        make()


def test_a_loop_and_a_loader_say_how_to_get_the_samples() -> None:
    stream = Stream(lists(5))
    with refused(r"a Stream has no samples by number; .* write list\(stream.epoch\(\)\)"):
        next(iter(stream))
    for processes in (0, 1):
        loader = torch.utils.data.DataLoader(stream, batch_size=2, num_workers=processes)
        with pytest.raises(PacelineError, match=r"a Stream has no samples by number; "):
            next(iter(loader))
