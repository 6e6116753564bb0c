"""Samples are not read in the autocast of the loop's step."""

from __future__ import annotations

from pathlib import Path

import torch
from fake_member import Member

from paceline.loading import DirectLoader, Load, Loads

SCRIPT = """
import torch, paceline
from torch import nn

class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        x = torch.full((2, 2), 1.001)
        return (x @ x)[0]

model = nn.Linear(2, 1)
job = paceline.join(model, Squares(), optimizer=torch.optim.SGD(model.parameters(), 0.1))
for x in job:
    with torch.autocast("cpu", torch.bfloat16):
        scores = model(x)
        scores.float().sum().backward()
        job.step(0.0, {"whole": float(x.dtype == torch.float32), "cast": float(scores.dtype == torch.bfloat16)})
        assert torch.mm(x, x.T).dtype == torch.bfloat16  # still in autocast
"""


class Squares(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.ones(2, 2) @ torch.ones(2, 2)


def test_a_loader_of_this_process_reads_outside_autocast() -> None:
    loader = DirectLoader(Loads(Squares(), None))
    assert loader.get(Load((1,), 5)).dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert loader.get(Load((1,), 5)).dtype == torch.float32
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16


def test_a_step_in_autocast_reads_the_next_samples_outside(tmp_path: Path) -> None:
    with Member(tmp_path, SCRIPT) as member:
        member.begin()
        for index in range(3):
            assert member.step([index])["metrics"] == {"whole": 1.0, "cast": 1.0}
        assert member.end() == 0, member.log
