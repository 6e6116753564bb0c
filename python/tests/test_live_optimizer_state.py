"""Plain PyTorch trains some steps, saves and loads; Paceline goes on from there as plain PyTorch would."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from card import ON_CARD, needs_card
from live_job import exported, killed_after_checkpoints, needs_paceline, paceline, replay, run_words, train, trained
from test_live_plain import EXPONENTIAL, LOOP, NO_SCHEDULE, POINTS, compare
from torch import allclose

pytestmark = needs_paceline

TASK = "SAMPLES, BATCH = 100, 16\n" + POINTS

LOADED = """
import io

def begun(model):
    optimizer = kind(model)
    for step in range(7):
        x = torch.randn(16, 6, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        loss_of(model, x, x[:, :1])[0].backward()
        optimizer.step()
    optimizer.zero_grad()
    return optimizer

def make_optimizer(model):
    file = io.BytesIO()
    torch.save([begun(model).state_dict(), model.state_dict()], file)
    file.seek(0)
    state, weights = torch.load(file)
    model.load_state_dict(weights)
    optimizer = kind(model)
    optimizer.load_state_dict(state)
    return optimizer
"""


def kind(words: str) -> str:
    return f"def kind(model):\n    return torch.optim.{words}\n"


SGD = kind("SGD(model.parameters(), 0.1, momentum=0.9, nesterov=True, weight_decay=1e-3)")
ADAM = kind("Adam(model.parameters(), 0.02)")
FOREACH = kind("Adam(model.parameters(), 0.02, foreach=True)")
ADAMW = kind("AdamW([{'params': model[0].parameters(), 'lr': 0.01}, {'params': model[2].parameters()}], 0.02)")
ADAMAX = kind("Adamax(model.parameters(), 0.02)")
NADAM = kind("NAdam(model.parameters(), 0.02)")
ADAGRAD = kind("Adagrad(model.parameters(), 0.05, initial_accumulator_value=0.01)")
RMSPROP = kind("RMSprop(model.parameters(), 0.002, momentum=0.8)")
LION = """
class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                average = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(group["lr"] * average.lerp(p.grad, 1 - group["betas"][0]).sign())
                average.lerp_(p.grad, 1 - group["betas"][1])

def kind(model):
    return Lion(model.parameters(), 0.003, weight_decay=0.1)
"""
ADAFACTOR = kind("Adafactor(model.parameters(), 0.02, eps=(None, 1e-3))")


@pytest.mark.parametrize(
    "optimizer, devices, more",
    [
        (SGD, 1, ()),
        (ADAM, 1, ()),
        (ADAMW, 1, ()),
        (ADAMAX, 1, ()),
        (NADAM, 1, ()),
        (ADAGRAD, 1, ()),
        (RMSPROP, 1, ()),
        (LION, 1, ()),
        (FOREACH, 1, ()),
        (SGD, 2, ()),
        (ADAMW, 2, ("--set", "cluster.servers=3")),
        (ADAM, 2, ("--virtual",)),
    ],
    ids=[
        "sgd",
        "adam",
        "adamw",
        "adamax",
        "nadam",
        "adagrad",
        "rmsprop",
        "lion",
        "foreach",
        "sgd-two",
        "adamw-two",
        "adam-virtual",
    ],
)
def test_a_loaded_optimizer_goes_on_as_in_plain_pytorch(
    tmp_path: Path, optimizer: str, devices: int, more: Sequence[str]
) -> None:
    compare(tmp_path, TASK + optimizer + LOADED + NO_SCHEDULE, devices, more)


def test_an_optimizer_that_has_stepped_before_join_goes_on(tmp_path: Path) -> None:
    stepped = LOADED.split("def make_optimizer")[0].replace("begun(", "make_optimizer(")
    compare(tmp_path, TASK + ADAM + stepped + EXPONENTIAL, 1)


RESUMED = """
def make_optimizer(model):
    optimizer = kind(model)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)
    for step in range(9):
        for parameter in model.parameters():
            parameter.grad = 0.1 * parameter.detach()
        optimizer.step()
        schedule.step()
    optimizer.zero_grad()
    again = kind(model)
    again.load_state_dict(optimizer.state_dict())
    again.schedule = schedule.state_dict()
    return again

def make_schedule(optimizer):
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)
    schedule.load_state_dict(optimizer.schedule)
    return schedule
"""


@pytest.mark.parametrize("devices", [1, 2])
def test_a_loaded_optimizer_and_its_scheduler_go_on_together(tmp_path: Path, devices: int) -> None:
    compare(tmp_path, "SAMPLES, BATCH = 96, 16\n" + POINTS + ADAMW + RESUMED, devices)


PARTLY = LOADED.replace("for step in", "model[0].requires_grad_(False)\n    for step in").replace(
    "    return optimizer\n", "    model[0].requires_grad_(True)\n    return optimizer\n", 1
)


@pytest.mark.parametrize(
    "optimizer, devices, more",
    [
        (SGD, 2, ()),
        (ADAM, 1, ()),
        (ADAMW, 2, ("--set", "cluster.servers=3")),
        (ADAMAX, 1, ("--virtual",)),
        (NADAM, 1, ()),
    ],
    ids=["sgd", "adam", "adamw-two", "adamax-virtual", "nadam"],
)
def test_parameters_without_a_state_begin_without_one(
    tmp_path: Path, optimizer: str, devices: int, more: Sequence[str]
) -> None:
    compare(tmp_path, TASK + optimizer + PARTLY + NO_SCHEDULE, devices, more)


def test_workers_whose_states_differ_are_told(tmp_path: Path) -> None:
    other = LOADED.replace("range(7)", "range(7 + (who is not None and who.name == 'w1'))")
    other = "from paceline.session import session\nwho = session()\n" + other
    ended = train(tmp_path, TASK + ADAM + other + NO_SCHEDULE + LOOP, 2)
    said = "has another state of its optimizer than the others; before join(), load the same checkpoint"
    assert said in " ".join(ended.stderr.split()), ended.stderr


@needs_card
def test_a_state_on_a_card_gives_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ON_CARD.items():
        monkeypatch.setenv(name, value)
    program = TASK + ADAMW + LOADED + NO_SCHEDULE + LOOP
    weights = []
    for where in ("host", "gpu"):
        (tmp_path / where).mkdir()
        run = trained(tmp_path / where, program, 2, ("--set", f"cluster.memory={where}"))
        replay(tmp_path / where, run)
        weights.append(exported(tmp_path / where, run))
    assert {name: value.tolist() for name, value in weights[0].items()} == {
        name: value.tolist() for name, value in weights[1].items()
    }


def test_a_state_without_a_place_at_the_servers_is_named_at_the_start(tmp_path: Path) -> None:
    ended = train(tmp_path, TASK + ADAFACTOR + LOADED + NO_SCHEDULE + LOOP, 1)
    assert ended.returncode == 0, ended.stderr
    line = (
        "the optimizer given to join() has a state whose parts col_var, row_var, step, variance have no place at the "
        "servers: only the weights are taken"
    )
    assert line in ended.stderr and "--resume" in ended.stderr
    assert "train.py:" in ended.stderr.split(": the optimizer given")[0]


def test_local_steps_refuse_an_optimizer_that_has_a_state(tmp_path: Path) -> None:
    for more in ((), ("--virtual",)):
        task = TASK + SGD.replace(", nesterov=True", "") + LOADED + NO_SCHEDULE + LOOP
        ended = train(tmp_path, task, 2, ("--policy", "local-sgd:2", *more))
        assert ended.returncode == 2
        assert "take a policy without local steps, or join() with an optimizer without a state" in ended.stderr


@pytest.mark.parametrize("loaded", [LOADED, PARTLY], ids=["all", "some"])
def test_a_run_that_is_resumed_has_the_state_of_its_checkpoint(tmp_path: Path, loaded: str) -> None:
    slow = LOOP.replace("epochs=3", "epochs=30").replace("    kept.append", "    time.sleep(0.02)\n    kept.append")
    task = TASK + ADAM + loaded + NO_SCHEDULE + "import time\n" + slow
    words = run_words(tmp_path, task, 1, ("--set", "checkpoint.every_epochs=2"), [])
    run = killed_after_checkpoints(tmp_path, words)
    ended = paceline(tmp_path, "train", "--resume", str(run))
    assert ended.returncode == 0, ended.stderr
    ours = exported(tmp_path, run)
    whole = tmp_path / "whole"
    whole.mkdir()
    assert train(whole, task, 1).returncode == 0
    theirs = exported(whole, next((whole / "runs").iterdir()))
    for name, value in theirs.items():
        assert allclose(ours[name], value, atol=1e-6), name
