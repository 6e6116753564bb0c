"""Data sets, transforms and collate functions that want the epoch hear it before its first sample is read."""

from __future__ import annotations

import functools
import operator
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_member import Member

from paceline.epochs import those_with_set_epoch
from paceline.errors import PacelineError
from paceline.job import Job
from paceline.loading import Load, make_loader
from paceline.streams.files import Opened

SCRIPT = """
import sys, torch, paceline
from torch import nn

class Blur:
    epoch = None
    def set_epoch(self, epoch):
        self.epoch = epoch
    def __call__(self, x):
        return self.epoch

class Compose:
    def __init__(self, *transforms):
        self.transforms = list(transforms)
    def __call__(self, x):
        for one in self.transforms:
            x = one(x)
        return x

class Own(torch.utils.data.Dataset):
    epoch = None
    def __init__(self):
        self.transform = Compose(Blur())
    def set_epoch(self, epoch):
        self.epoch = epoch
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return torch.tensor([self.epoch, self.transform(index)])

model = nn.Linear(2, 1)
data = torch.utils.data.Subset(Own(), range(8))
job = paceline.join(model, data, optimizer=torch.optim.SGD(model.parameters(), 0.1), num_workers=int(sys.argv[1]))
for x in job:
    here = data.dataset.epoch == job.epoch
    model(x.float()).sum().backward()
    job.step(0.0, {"right": float(here and bool((x == job.epoch).all()))})
"""


@pytest.mark.parametrize("loaders", [0, 2])
def test_whoever_wants_the_epoch_hears_it(tmp_path: Path, loaders: int) -> None:
    with Member(tmp_path, SCRIPT, arguments=[str(loaders)]) as member:
        member.begin()
        batches = [{"samples": [i], "epoch": i // 2, "augment_seed": i // 2} for i in range(6)]
        for at, batch in enumerate(batches):
            member.send({"type": "expect", "batches": batches[at : at + 4]})
            assert member.step(**batch)["metrics"]["right"] == 1.0
        # A batch of an epoch before, that a lost worker had.
        assert member.step([7], epoch=0, augment_seed=0)["metrics"]["right"] == 1.0
        assert member.end() == 0, member.log


class Wants:
    def set_epoch(self, epoch: int) -> None: ...


class PassesOn:
    def __init__(self, to: Any) -> None:
        self.to = to

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["to"], name)


def test_where_they_are_found() -> None:
    one = Wants()
    for root in (one, [one], {"a": (one,)}, PassesOn(one), functools.partial(print, one), lambda: one, one.set_epoch):
        assert those_with_set_epoch([root]) == [one], root
    assert those_with_set_epoch([[0] * 10_000, "text", None, Wants]) == []


def test_indices_of_files_are_not_looked_through() -> None:
    index: Opened[Wants] = Opened(lambda shard: Wants())
    index.get(0)
    assert those_with_set_epoch([index]) == []


def test_a_job_has_no_length() -> None:
    job = Job.__new__(Job)
    with pytest.raises(TypeError, match=r"no len\(\), .*; leave it out, and total= of a progress bar"):
        len(job)
    assert job and operator.length_hint(job, 5) == 5  # list(job) asks for it


@pytest.mark.parametrize("loaders", [0, 1])
def test_samples_that_come_later_are_not_left_out_silently(loaders: int) -> None:
    samples = [torch.ones(1)] * 4
    loader = make_loader(samples, None, {"num_workers": loaders})
    loader.get(Load((0, 1), 7, 0))
    samples.append(torch.ones(1))
    loader.get(Load((2, 3), 7, 0))
    with pytest.raises(
        PacelineError, match="had 4 samples at join.. and has 5 now, and the job leases those of join"
    ):
        loader.get(Load((0, 1), 7, 1))
    loader.close()
