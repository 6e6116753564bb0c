"""An exception in a person's own function says at which sample it happened, from a loader process too."""

from __future__ import annotations

import io
import json
import tarfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from paceline.failures import failure_of
from paceline.loading import Load, make_loader
from paceline.streams import FileShards, JsonLines, Mixture, Shards, Stream, TarFiles

BAD = 5


def number_of(value: Any) -> int:
    number = int(json.loads(value)["number"] if isinstance(value, (str, bytes)) else value["number"])
    if number == BAD:
        raise ValueError("a bad number")
    return number


class Numbers(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        return number_of({"number": index})


def read(path: str) -> Iterator[int]:
    with open(path) as lines:
        yield from map(number_of, lines)


def plain(name: str) -> Iterator[dict[str, int]]:
    return ({"number": number} for number in range(8))


def train_sets(folder: Path) -> dict[str, tuple[Any, str]]:
    """Training sets with their eight samples, and the name of the bad one."""
    file = folder / "a.jsonl"
    file.write_text("".join(json.dumps({"number": number}) + "\n" for number in range(8)))
    with tarfile.open(folder / "a.tar", "w") as tar:
        for number in range(8):
            member = tarfile.TarInfo(f"{number}.json")
            member.size = len(json.dumps({"number": number}))
            tar.addfile(member, io.BytesIO(json.dumps({"number": number}).encode()))
    mixture = Mixture({"plain": (Shards(["all"], plain, length=lambda name: 8), 1)})
    tars = TarFiles(str(folder / "a.tar"), decode=lambda ending, data: number_of(data))
    return {
        "data set": (Numbers(), f"sample {BAD} of the training set"),
        "map": (Stream(JsonLines(str(file)), map=number_of), f"record {BAD} of the shard {file}"),
        "keep": (Stream(JsonLines(str(file)), keep=number_of), f"record {BAD} of the shard {file}"),  # type: ignore[arg-type]
        "open": (Stream(FileShards(str(file), read)), f"record {BAD} of the shard {file}"),
        "decode": (Stream(tars), f"{folder}/a.tar, {BAD}.json"),
        "mixture": (Stream(mixture, map=number_of), f"record {BAD} of the shard all of 'plain' in the Mixture"),
    }


@pytest.mark.parametrize("processes", [0, 1])
@pytest.mark.parametrize("what", ["data set", "map", "keep", "open", "decode", "mixture"])
def test_an_exception_says_its_sample(tmp_path: Path, what: str, processes: int) -> None:
    train_set, name = train_sets(tmp_path)[what]
    loader = make_loader(train_set, list, {"num_workers": processes})
    try:
        with pytest.raises(ValueError) as caught:
            loader.get(Load(tuple(range(8)), 1))
    finally:
        loader.close()
    assert failure_of(caught.value).text == f"ValueError: a bad number, at {name}"
    if hasattr(caught.value, "add_note"):
        assert f"at {name}" in "".join(traceback.format_exception(caught.value)).splitlines()
