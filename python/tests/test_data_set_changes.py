"""A program may set attributes of its training set, and a line comes if loader processes would not see it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_member import Ended, Member
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset

from paceline.data_set_changes import DataSetChanges
from paceline.errors import PacelineError
from paceline.loading import AheadLoader, Load, Loads
from paceline.streams import Stream


def double(x: Any) -> Any:
    return x * 2


def triple(x: Any) -> Any:
    return x * 3


class Crop:
    def __init__(self, size: int) -> None:
        self.size = size


class Images(Dataset):
    """Attributes as data sets of programs have them."""

    def __init__(self) -> None:
        self.transform: Callable[[Any], Any] = double
        self.targets = [0] * 8
        self.mosaic = True
        self.size = (32, 32)
        self.stages = ("load", "resize")
        self.difficulty = 1
        self._difficulty = 1
        self._file: Any = None  # opened at the first sample
        self._cache: dict[int, Any] = {}
        self.reads = 0
        self.last_score = 0.0  # nothing that reads a sample looks at it
        self.order = [*range(8)]
        self.crop = Crop(32)
        self.names_length = -1

    def set_epoch(self, epoch: int) -> None:
        self.order = [(i + epoch) % 8 for i in range(8)]

    def set_difficulty(self, difficulty: int) -> None:
        self._difficulty = difficulty

    def score(self, score: float) -> None:
        self.last_score = score

    def __len__(self) -> int:
        self.names_length = 8
        return self.names_length

    def __getitem__(self, index: int) -> Any:
        return self._read(index)

    def _read(self, index: int) -> Any:
        self._open()
        self.reads += 1
        self._cache = {**self._cache, index: self._file}
        shift = sum(shift for shift in self.size) + self._difficulty + getattr(self, "difficulty")  # noqa: B009
        x = torch.tensor([self.order[index] + self.targets[index] + shift])
        return self.transform(x) if self.mosaic and self._cache and self.stages and self.crop else x

    def _open(self) -> None:
        if self._file is None:
            self._file = object()


def refused(change: Callable[[Images], Any], around: Callable[[Any], Any] = lambda one: one) -> str:
    images = Images()
    changes = DataSetChanges(around(images))
    changes.check()
    change(images)
    try:
        changes.check()
    except PacelineError as error:
        return str(error)
    return ""


SEEN: dict[str, Callable[[Images], Any]] = {
    "transform": lambda one: setattr(one, "transform", triple),
    "targets": lambda one: setattr(one, "targets", [1] * 8),
    "mosaic": lambda one: setattr(one, "mosaic", False),
    "crop": lambda one: setattr(one, "crop", Crop(64)),
    "size": lambda one: setattr(one, "size", (64, 64)),
    "difficulty": lambda one: setattr(one, "difficulty", 2),
    "_difficulty": lambda one: one.set_difficulty(2),
}


@pytest.mark.parametrize("name", SEEN)
def test_the_line_names_the_attribute(name: str) -> None:
    assert refused(SEEN[name]) == (
        f"the program has set {name} of its training set (Images) since join(), and the loader processes, which began "
        "in join(), would go on with the old value; set it in a method set_epoch(self, epoch) of the data set, which "
        "they call too, or give join() num_workers=0"
    )


def read_all(one: Images) -> None:
    assert len(one) == len([one[i] for i in range(8)])


UNSEEN: dict[str, Callable[[Images], Any]] = {
    "nothing": lambda one: None,
    "samples that the program reads": read_all,
    "the value that it had": lambda one: (one.set_difficulty(1), setattr(one, "size", (32, 32))),
    "an equal tuple of words": lambda one: setattr(one, "stages", tuple(["load", "resize"])),
    "an equal list": lambda one: setattr(one, "targets", [0] * 8),
    "a transform that is made anew": lambda one: setattr(one, "crop", Crop(32)),
    "what set_epoch() sets": lambda one: one.set_epoch(3),
    "what no sample needs": lambda one: one.score(0.5),
    "a new attribute": lambda one: setattr(one, "note", "seen"),
    "a list in place": lambda one: one.targets.__setitem__(0, 1),
}


@pytest.mark.parametrize("name", UNSEEN)
def test_what_data_sets_do_by_themselves_is_no_change(name: str) -> None:
    assert refused(UNSEEN[name]) == ""


class Wrapped(Dataset):
    def __init__(self, inner: Images) -> None:
        self.inner = inner

    def __len__(self) -> int:
        return len(self.inner)

    def __getitem__(self, index: int) -> Any:
        return self.inner._read(index)  # a method of the inner one's own


AROUND: dict[str, Callable[[Any], Any]] = {
    "Subset": lambda one: Subset(one, range(4)),
    "ConcatDataset": lambda one: ConcatDataset([Images(), one]),
    "Subset of ConcatDataset": lambda one: Subset(ConcatDataset([one, Images()]), range(4)),
    "one of the program's own": Wrapped,
}


@pytest.mark.parametrize("around", AROUND)
def test_a_data_set_in_another_one(around: str) -> None:
    assert "has set mosaic of its training set (Images)" in refused(SEEN["mosaic"], AROUND[around])
    assert refused(read_all, AROUND[around]) == ""


def keeping(method: Any) -> Any:
    @functools.wraps(method)
    def read(self: Any, index: int) -> Any:
        self.held = index
        return method(self, index)

    return read


class Decorated(Dataset):
    def __init__(self) -> None:
        self.held = -1
        self.scale = 1.0
        self._names = ["a"]

    def __len__(self) -> int:
        return 2

    @property
    def factor(self) -> float:
        return self.scale

    @functools.lru_cache  # noqa: B019
    def names(self) -> list[str]:
        self._names = [*self._names]
        return self._names

    @keeping
    def __getitem__(self, index: int) -> Any:
        return self.factor, self.held, self.names()


def test_methods_in_decorators_and_properties() -> None:
    one = Decorated()
    changes = DataSetChanges(one)
    assert one[1][1] == 1
    changes.check()
    one.scale = 2.0
    with pytest.raises(PacelineError, match="has set scale of its training set"):
        changes.check()


class Mixer:
    """A collate_fn, and an object whose method is one."""

    def __init__(self) -> None:
        self.enabled = True
        self.length = 8
        self.calls = 0
        self.loss = 0.0  # the last one of its loop, say

    def set_epoch(self, epoch: int) -> None:
        self.length = 8 * epoch

    def __call__(self, samples: list[Any]) -> Any:
        return self.collate(samples)

    def collate(self, samples: list[Any], factor: int = 1) -> Any:
        self.calls += 1
        return self._cut(samples) if self.enabled else samples

    def _cut(self, samples: list[Any]) -> Any:
        return samples[: self.length]


COLLATES: dict[str, Callable[[Mixer], Any]] = {
    "an object": lambda one: one,
    "a method": lambda one: one.collate,
    "a part of a method": lambda one: functools.partial(one.collate, factor=2),
}


@pytest.mark.parametrize("kind", COLLATES)
def test_an_attribute_of_the_collate_fn(kind: str) -> None:
    mixer = Mixer()
    changes = DataSetChanges(Images(), COLLATES[kind](mixer))
    mixer([])
    mixer.set_epoch(3)
    mixer.loss = 0.5
    changes.check()
    mixer.enabled = False
    with pytest.raises(PacelineError) as refused:
        changes.check()
    assert str(refused.value) == (
        "the program has set enabled of its collate_fn (Mixer) since join(), and the loader processes, which began in "
        "join(), would go on with the old value; set it in a method set_epoch(self, epoch) of Mixer, which they call "
        "too, or give join() num_workers=0"
    )
    changes.note()
    changes.check()


class WithCollate(Images):
    def __init__(self) -> None:
        super().__init__()
        self.longest = 0
        self.padding = 0

    def _read(self, index: int) -> Any:
        self.longest = max(self.longest, index)
        return super()._read(index)

    def collate(self, samples: list[Any]) -> Any:
        return samples, self.longest, self.padding


def test_a_method_of_the_data_set_that_collates() -> None:
    images = WithCollate()
    changes = DataSetChanges(images, images.collate)
    read_all(images)  # sets what collate() looks at
    changes.check()
    images.padding = 1
    with pytest.raises(PacelineError, match=r"has set padding of its collate_fn \(WithCollate\)"):
        changes.check()


@pytest.mark.parametrize("collate", [None, torch.utils.data.default_collate, lambda samples: samples, Images.score])
def test_a_function_that_collates(collate: Any) -> None:
    images = Images()
    changes = DataSetChanges(images, collate)
    changes.check()
    images.mosaic = False
    with pytest.raises(PacelineError, match="of its training set"):
        changes.check()


def test_data_sets_of_torch_and_those_without_code() -> None:
    tensors = TensorDataset(torch.zeros(4, 1))
    subset = Subset(tensors, [0, 1])
    changes = DataSetChanges(subset)
    subset.indices = [2, 3]
    with pytest.raises(PacelineError, match=r"has set indices of its training set \(Subset\)"):
        changes.check()
    changes.note()
    tensors.tensors = (torch.ones(4, 1),)
    with pytest.raises(PacelineError, match=r"has set tensors of its training set \(TensorDataset\)"):
        changes.check()
    DataSetChanges([1, 2, 3]).check()


def test_functions_of_a_stream(tmp_path: Path) -> None:
    class Source:
        def shards(self) -> list[str]:
            return ["a"]

        def length(self, shard: int) -> int:
            return 4

        def read(self, shard: int, records: list[int]) -> list[int]:
            return records

    stream = Stream(Source(), map=double)
    changes = DataSetChanges(stream)
    stream.seed = 5
    assert sorted(stream.epoch()) == [0, 2, 4, 6]
    changes.check()
    stream.map = triple
    with pytest.raises(PacelineError, match=r"has set map of its training set \(Stream\)"):
        changes.check()


@pytest.fixture
def images() -> Images:
    return Images()


@pytest.fixture(params=[False, True], ids=["for each job", "persistent"])
def ahead(images: Images, request: Any) -> Iterator[tuple[AheadLoader, bool]]:
    loader = AheadLoader(Loads(images, None), {"num_workers": 1, "persistent_workers": request.param})
    yield loader, request.param
    loader.close()


def test_a_loader_looks_at_each_batch(images: Images, ahead: tuple[AheadLoader, bool]) -> None:
    loader, persistent = ahead
    for epoch in range(2):
        loader.get(Load((1, 2), 5, epoch))
        images.set_epoch(epoch)  # the program need not, and may
        read_all(images)
    images.mosaic = False
    if persistent:  # in plain PyTorch they do not see it either
        loader.get(Load((3,), 5, 1))
        return
    with pytest.raises(PacelineError, match="has set mosaic"):
        loader.get(Load((3,), 5, 1))


def test_a_loader_looks_at_its_collate_fn(images: Images) -> None:
    mixer = Mixer()
    loader = AheadLoader(Loads(images, mixer), {"num_workers": 1})
    try:
        loader.get(Load((1, 2), 5, 1))
        mixer.enabled = False
        with pytest.raises(PacelineError, match="has set enabled of its collate_fn"):
            loader.get(Load((3,), 5, 1))
    finally:
        loader.close()


def test_a_change_before_the_first_batch(images: Images, ahead: tuple[AheadLoader, bool]) -> None:
    images.transform = triple
    with pytest.raises(PacelineError, match="has set transform"):
        ahead[0].get(Load((1,), 5, 0))


SCRIPT = """
import sys, torch, paceline
from torch import nn

class Own(torch.utils.data.Dataset):
    scale = 1.0
    def __init__(self):
        self.scale = 1.0
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return torch.tensor([self.scale, 1.0])

model = nn.Linear(2, 1)
data = Own()
job = paceline.join(model, data, optimizer=torch.optim.SGD(model.parameters(), 0.1), num_workers=int(sys.argv[1]))
for x in job:
    if job.epoch == 1:
        data.scale = 2.0
    model(x).sum().backward()
    job.step(float(x[0, 0]))
"""


@pytest.mark.parametrize("loaders", [0, 1])
def test_a_program_that_changes_its_data_set_in_the_loop(tmp_path: Path, loaders: int) -> None:
    with Member(tmp_path, SCRIPT, arguments=[str(loaders)]) as member:
        member.begin()
        losses = [member.step([epoch], epoch=epoch, augment_seed=epoch)["loss"] for epoch in range(2)]
        if loaders == 0:
            assert [*losses, member.step([2], epoch=1, augment_seed=1)["loss"]] == [1.0, 1.0, 2.0]
            assert member.end() == 0, member.log
            return
        member.order([2], epoch=1, augment_seed=1)
        said = member.receive()
        assert said["type"] == "error" and "has set scale of its training set (Own)" in said["text"], said
        with pytest.raises(Ended):
            member.receive()
