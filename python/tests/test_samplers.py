"""Samplers and orders that join() does not take, and what each line has in their place."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from paceline.errors import PacelineError
from paceline.train_sets import check_options, check_train_set

DATA = TensorDataset(torch.zeros(64, 2))
SUBSET = (
    "this one's SubsetRandomSampler leaves samples out; give it torch.utils.data.Subset(dataset, sampler.indices)"
)
WHOLE = "give it loader.dataset, and what the loader was told"
DRAWS = ". Its sampler has no place in a job"

LOADERS: dict[str, tuple[dict[str, Any], str]] = {
    "some samples": ({"sampler": SubsetRandomSampler(range(48))}, SUBSET),
    "batches of some": ({"batch_sampler": BatchSampler(SubsetRandomSampler(torch.arange(48)), 4, False)}, SUBSET),
    "all samples": ({"sampler": SubsetRandomSampler(range(64))}, DRAWS),
    "other ones each epoch": ({"sampler": RandomSampler(DATA, num_samples=10)}, DRAWS),
    "batches of one's own": ({"batch_sampler": [[1, 2], [3]]}, DRAWS),
    "some more often": ({"sampler": WeightedRandomSampler([1.0] * 64, 64)}, DRAWS),
    "shuffled": ({"shuffle": True}, WHOLE),
    "in order": ({"shuffle": False}, WHOLE),
    "items": ({"batch_size": None}, WHOLE),
}


@pytest.mark.parametrize("what", LOADERS)
def test_a_loader(what: str) -> None:
    options, says = LOADERS[what]
    with pytest.raises(PacelineError, match="^join.. wants the data set and not a DataLoader") as error:
        check_train_set(DataLoader(DATA, **options))
    assert says in str(error.value)
    assert (DRAWS in str(error.value)) == (says == DRAWS)


OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "some samples": (
        {"sampler": SubsetRandomSampler([3, 4])},
        "this SubsetRandomSampler leaves samples out; leave sampler= out, and give join() torch.utils.data.Subset(",
    ),
    "batches of some": (
        {"batch_sampler": BatchSampler(SubsetRandomSampler([3, 4]), 2, False)},
        "this SubsetRandomSampler leaves samples out; leave batch_sampler= out, and give join()",
    ),
    "all samples": ({"sampler": SequentialSampler(DATA)}, "once an epoch; leave sampler= out; if it draws"),
    "numbers": ({"sampler": [1, 2]}, "once an epoch; leave sampler= out; if it draws"),
    "shuffled": ({"shuffle": True}, "Paceline shuffles each epoch by the job's seed; leave shuffle= out"),
    "in order": ({"shuffle": False}, "Paceline shuffles each epoch by the job's seed; leave shuffle= out"),
}


@pytest.mark.parametrize("what", OPTIONS)
def test_an_option(what: str) -> None:
    options, says = OPTIONS[what]
    with pytest.raises(PacelineError) as error:
        check_options(options, (), DATA)
    assert says in str(error.value)


def test_what_a_data_loader_has_by_itself_is_taken() -> None:
    assert check_options({"sampler": None, "batch_sampler": None, "shuffle": None}, (), DATA) == {}
