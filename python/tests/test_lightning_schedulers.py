"""Schedulers that a LightningModule steps by itself, in a worker that has other epochs than the job."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("lightning.pytorch", reason="Lightning is not installed")
from test_lightning import FIT, HEAD, start  # noqa: E402

MANUAL = """
class Manual(Module):
    automatic_optimization = False
    def training_step(self, batch, index):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(F.cross_entropy(self.net(batch[0]), batch[1]))
        optimizer.step()
        if {each_step}:
            self.lr_schedulers().step()
    def on_train_epoch_end(self):
        if not {each_step}:
            self.lr_schedulers().step()
            print("place", self.lr_schedulers().last_epoch)
    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.{schedule}
        return {{"optimizer": optimizer, "lr_scheduler": {{"scheduler": schedule, "interval": "{interval}"}}}}
Module = Manual
"""
FIT = FIT.replace("gradient_clip_val=0.5,", "")


@pytest.mark.parametrize(
    "schedule", ["StepLR(optimizer, 1, 0.5)", "LambdaLR(optimizer, lambda epoch: [1.0, 0.5][epoch])"]
)
def test_a_fast_worker_steps_at_each_epoch_of_the_trainer(tmp_path: Path, schedule: str) -> None:
    manual = MANUAL.format(each_step=False, schedule=schedule, interval="epoch")
    with start(tmp_path, HEAD + manual + FIT, devices=2) as member:
        member.begin()
        for step in range(9):  # an epoch of the Trainer has two steps
            member.step([step], epoch=step // 7)
        assert member.end() == 0, member.log
    places = [line.split()[1] for line in member.log.splitlines() if line.startswith("place")]
    assert places == ["1", "1", "1", "2", "2"]


@pytest.mark.parametrize(
    "schedule",
    [
        "OneCycleLR(optimizer, 0.1, total_steps=4, cycle_momentum=False)",
        "LambdaLR(optimizer, lambda step: [1.0, 0.5, 0.3, 0.2][step])",
    ],
)
def test_a_fast_worker_steps_more_often_than_an_even_share(tmp_path: Path, schedule: str) -> None:
    manual = MANUAL.format(each_step=True, schedule=schedule, interval="step")
    with start(tmp_path, HEAD + manual + FIT, devices=2) as member:
        member.begin()
        for step in range(7):
            member.step([step], epoch=step // 4)
        assert member.end() == 0, member.log
