"""Data sets of Hugging Face that are read as streams."""

from __future__ import annotations

import itertools

import torch
from stream_files import library, refused

from paceline.streams import HuggingFace, Shards, Stream


def rows(numbers: list[int]):
    for number in numbers:
        for record in range(2500 + number):
            yield {"id": number * 10_000 + record}


def hugging_face(shards: int = 3):
    datasets = library("datasets")
    return datasets.IterableDataset.from_generator(rows, gen_kwargs={"numbers": list(range(shards))})


def test_hugging_face_rows_are_those_of_the_data_set() -> None:
    dataset = (
        hugging_face().map(lambda row: {"id": row["id"], "twice": 2 * row["id"]}).filter(lambda row: row["id"] % 5)
    )
    whole = list(dataset)
    source = HuggingFace(dataset)
    assert [row for shard in range(3) for row in source.read(shard, range(source.up_to(shard, 1 << 40)))] == whole
    assert sorted(row["id"] for row in Stream(source).epoch(1)) == [row["id"] for row in whole]


def test_a_record_further_back_is_read_from_the_nearest_state() -> None:
    begun = []

    def noted(numbers: list[int]):
        for number in range(numbers[0], numbers[0] + 6000):
            begun.append(number)
            yield {"id": number}

    datasets = library("datasets")
    dataset = datasets.IterableDataset.from_generator(noted, gen_kwargs={"numbers": [0, 10_000]})
    source = HuggingFace(dataset, lengths=[6000, 6000], window=1000)
    assert source.read(1, [5999]) == [{"id": 15_999}]
    assert source.read(1, [10]) == [{"id": 10_010}]
    assert source.read(1, [1500, 5500]) == [{"id": 11_500}, {"id": 15_500}]
    assert source.read(1, [1000]) == [{"id": 11_000}]
    assert source._states[1].records() == [1000, 2000, 3000, 4000, 5000]


class Read(torch.utils.data.Dataset):
    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def __len__(self) -> int:
        return len(self.stream) // 50

    def __getitem__(self, number: int) -> list:
        return self.stream.records(0, number * 50, number * 50 + 50)


def test_loader_processes_read_the_same() -> None:
    stream = Stream(HuggingFace(hugging_face(), lengths=[2500, 2501, 2502]))
    loader = torch.utils.data.DataLoader(Read(stream), batch_size=None, num_workers=2)
    assert [row for _, batch in zip(range(20), loader) for row in batch] == stream.records(0, 0, 1000)


def test_hugging_face_refuses_what_it_cannot_name() -> None:
    split_dataset_by_node = library("datasets.distributed").split_dataset_by_node
    with refused(r"went through split_dataset_by_node\(\), .*; give the data set before that"):
        HuggingFace(split_dataset_by_node(hugging_face(), 0, 2))
    with refused(r"went through shuffle\(\), .*; give the data set before that, and write Stream"):
        HuggingFace(hugging_face().shuffle(seed=1).map(lambda row: row))
    with refused(r"wants a datasets.IterableDataset .* and not list; .* or a Dataset to join"):
        HuggingFace([{"id": 1}])
    with refused("lengths= has 1 numbers, and the data set 3 shards; "):
        HuggingFace(hugging_face(), lengths=[1])
    with refused("the shard 1 of the IterableDataset has more records than the 2500 that lengths= says; "):
        HuggingFace(hugging_face(), lengths=[2500] * 3).read(1, [2499])


def test_hugging_face_refuses_what_counts_over_shards() -> None:
    datasets = library("datasets")

    def whole(shards: int = 3):
        return datasets.IterableDataset.from_generator(rows, gen_kwargs={"numbers": list(range(shards))})

    def both(stops: str):
        return datasets.interleave_datasets([whole(), whole(2)], stopping_strategy=stops)

    def indexed(row: dict, index: int) -> dict:
        return {"index": index}

    for make, name in (
        (lambda: whole().take(2600), r"take\(\)"),
        (lambda: whole().skip(2600).map(lambda row: row), r"skip\(\)"),
        (lambda: datasets.concatenate_datasets([whole().take(3), whole()]), r"take\(\)"),
        (lambda: whole().map(indexed, with_indices=True), r"map\(…, with_indices=True\)"),
        (lambda: whole().filter(lambda row, index: index % 9, with_indices=True), r"filter\(…, with_indices=True\)"),
        (lambda: whole().batch(7, drop_last_batch=True), "drop_last_batch=True"),
        (lambda: both("first_exhausted"), r"interleave_datasets\(…, stopping_strategy='first_exhausted'\)"),
        (lambda: both("all_exhausted"), r"interleave_datasets\(…, stopping_strategy='all_exhausted'\)"),
    ):
        way_out = r'write Shards\(\["all"\], lambda name: dataset.repeat\(1\)\)'
        with refused(f"went through {name}, which counts over shards, .*; {way_out}"):
            HuggingFace(make())
        source = Shards(["all"], lambda name, dataset=make(): dataset.repeat(1))  # noqa: B008
        assert source.read(0, range(7)) == list(itertools.islice(make(), 7))
    assert HuggingFace(whole(1).take(5)).up_to(0, 10) == 5
    rest, dataset = list(whole())[2600:], whole().skip(2600)
    source = Shards(["all"], lambda name: dataset.repeat(1), window=100)
    for record in (4000, 10, 3500, 1200, 1300, 4902):
        assert source.read(0, [record]) == [rest[record]]
    assert source.up_to(0, 10_000) == len(rest) == 4903
    split = HuggingFace(both("all_exhausted_without_replacement"))
    assert sum(split.up_to(shard, 1 << 40) for shard in range(2)) == 7503 + 5001


def test_join_says_how_to_give_it_such_a_data_set() -> None:
    from paceline.train_sets import check_train_set

    with refused(r"a streaming data set of Hugging Face; write Stream\(HuggingFace\(dataset\)\)"):
        check_train_set(hugging_face())
