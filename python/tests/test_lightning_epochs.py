"""The numbers of epochs and steps that a Lightning Trainer says during a job."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("lightning.pytorch", reason="Lightning is not installed")
from test_lightning import FIT, HEAD, start  # noqa: E402

SAYS = """
class Says(Module):
    def training_step(self, batch, index):
        told = self.trainer
        print("place", told.current_epoch, told.max_epochs, told.estimated_stepping_batches)
        return super().training_step(batch, index)
Module = Says
"""
AFTER = 'print("after:", trainer.max_epochs)\n'


def places(log: str) -> list[str]:
    return [line.removeprefix("place ") for line in log.splitlines() if line.startswith("place")]


@pytest.mark.parametrize("steps", [3, 4, 7])  # an even share is four
def test_the_trainer_says_how_long_it_trains(tmp_path: Path, steps: int) -> None:
    fit = FIT.replace("max_epochs=2", "max_epochs=2, check_val_every_n_epoch=3")
    with start(tmp_path, HEAD + SAYS + fit + AFTER, devices=2) as member:
        member.begin()
        for step in range(steps):
            member.step([step])
        assert member.end() == 0, member.log
    # A fast worker trains for more epochs of two steps than the two that it was given.
    expected = ["0 2 4", "0 2 4", "1 2 4", "1 2 4", "2 3 6", "2 3 6", "3 4 8"]
    assert places(member.log) == expected[:steps]
    assert "after: 2" in member.log and "paceline: check_val_every_n_epoch=3 has no effect: " in member.log


def test_a_trainer_without_a_number_of_epochs(tmp_path: Path) -> None:
    endless = FIT.replace("max_epochs=2", "max_epochs=-1")
    head = HEAD.replace("self.trainer.estimated_stepping_batches", "4")
    with start(tmp_path, head + SAYS + endless + AFTER, devices=2) as member:
        member.begin()
        for step in range(3):
            member.step([step])
        assert member.end() == 0, member.log
    assert places(member.log) == ["0 -1 inf", "0 -1 inf", "1 -1 inf"]
