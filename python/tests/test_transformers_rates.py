"""Rates and other numbers of a Trainer's optimizer that a callback sets, and the servers would not see."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("accelerate", reason="accelerate is not installed, and a Trainer of transformers needs it")
from test_transformers import HEAD, TRAIN, start  # noqa: E402

SETS = """
import transformers
class Sets(transformers.TrainerCallback):
    def on_{hook}(self, args, state, control, optimizer=None, **_):
        if state.global_step == 2:
            for group in optimizer.param_groups:
                group["{name}"] = {value}
"""
OWN = """
def its_own(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return optimizer, torch.optim.lr_scheduler.{schedule}
net = Net()
"""
SCHEDULES = {
    "the Trainer's": None,
    "cosine": 'lr_scheduler_type="cosine", use_cpu',
    "constant": 'lr_scheduler_type="constant", use_cpu',
    "given": "LinearLR(optimizer, 1.0, 0.5, 8)",
    "given, as long as an even share": "OneCycleLR(optimizer, 0.1, total_steps=4, cycle_momentum=False)",
    "given, without an end": "ExponentialLR(optimizer, 0.9)",
}


def script(schedule: str | None, sets: str = "") -> str:
    train = TRAIN.replace("use_cpu", "logging_steps=1, use_cpu")
    if sets:
        train = train.replace("done = ", "trainer.add_callback(Sets())\ndone = ")
    if schedule is None:
        return HEAD + sets + train
    if "use_cpu" in schedule:
        return HEAD + sets + train.replace("use_cpu", schedule)
    given = train.replace("Net(), Tr", "net, Tr").replace("=accuracy)", "=accuracy, optimizers=its_own(net))")
    return HEAD + sets + OWN.format(schedule=schedule) + given


MAKES = """
import transformers
from paceline.integrations.transformers import PacelineTraining
class Makes(transformers.Trainer):
    def create_scheduler(self, num_training_steps, optimizer=None):
        rates = [0.1] * num_training_steps
        self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: rates[step])
        return self.lr_scheduler
class PacelineTrainer(PacelineTraining, Makes):
    pass
"""


def test_a_scheduler_that_a_class_of_the_program_makes(tmp_path: Path) -> None:
    with start(tmp_path, HEAD + MAKES + TRAIN, devices=2) as member:
        member.begin()
        for step in range(7):
            assert member.step([step])["type"] == "stepped"
        assert member.end() == 0, member.log


@pytest.mark.parametrize("name, value", [("lr", 0.05), ("weight_decay", 0.5), ("betas", (0.5, 0.5))])
@pytest.mark.parametrize("hook", ["step_begin", "step_end", "pre_optimizer_step"])
def test_a_callback_that_sets_a_number(tmp_path: Path, hook: str, name: str, value: object) -> None:
    expect_line(tmp_path, script(None, SETS.format(hook=hook, name=name, value=value)), name)


@pytest.mark.parametrize("schedule", ["constant", "given"])
def test_a_callback_that_sets_the_rate_beside_another_schedule(tmp_path: Path, schedule: str) -> None:
    sets = SETS.format(hook="step_begin", name="lr", value=0.05)
    expect_line(tmp_path, script(SCHEDULES[schedule], sets), "lr")


def expect_line(folder: Path, text: str, name: str) -> None:
    with start(folder, text, devices=2) as member:
        member.begin()
        for step in range(4):
            member.order([step])
            answer = member.receive()
            if answer["type"] == "error":
                break
        assert f"the optimizer's {name} was " in answer.get("text", ""), member.log
        assert "and the servers step with " in answer["text"] and "leave" in answer["text"]


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_scheduler_of_the_trainer_sets_rates_as_ever(tmp_path: Path, name: str) -> None:
    with start(tmp_path, script(SCHEDULES[name]), devices=2) as member:
        member.begin()
        for step in range(7):  # an even share is four
            assert member.step([step])["type"] == "stepped"
        assert member.end() == 0, member.log
