"""Jobs whose program freezes or unfreezes parameters while it trains."""

from __future__ import annotations

from pathlib import Path

import torch
from live_job import exported, needs_paceline, only_run, paceline, train, trained
from test_live_plain import ADAM, LOOP, NO_SCHEDULE, POINTS, rounds

pytestmark = needs_paceline

PLAIN_SGD = "def make_optimizer(model):\n    return torch.optim.SGD(model.parameters(), 0.3)\n"
FREEZE = "    if len(kept) == 9:\n        model[0].requires_grad_(False)\n"


def task(optimizer: str) -> str:
    return "SAMPLES, BATCH = 96, 16\n" + POINTS + optimizer + NO_SCHEDULE


def test_sgd_without_momentum_leaves_frozen_parameters_alone(tmp_path: Path) -> None:
    run = trained(tmp_path, task(PLAIN_SGD) + LOOP.replace("json.dump", FREEZE + "json.dump"), 1)
    scope: dict = {}
    exec(task(PLAIN_SGD), scope)
    model, data = scope["make"]()
    optimizer = scope["make_optimizer"](model)
    for number, samples in enumerate(rounds(tmp_path)):
        model[0].requires_grad_(number < 9)
        optimizer.zero_grad()
        scope["loss_of"](model, *scope["collate"]([data[i] for i in samples]))[0].backward()
        optimizer.step()
    for name, value in exported(tmp_path, run).items():
        assert torch.allclose(value, model.state_dict()[name], atol=2e-5), name


def test_adam_ends_with_a_line_that_names_the_parameter_and_the_step(tmp_path: Path) -> None:
    program = task(ADAM) + LOOP.replace("json.dump", FREEZE + "json.dump")
    ended = train(tmp_path, program, 1)
    line = program[: program.index("job.step(")].count("\n") + 1
    assert ended.returncode == 2
    said = f"train.py:{line}: 0.weight was frozen after join(), and Adam at the servers would go on with its moments"
    assert said in ended.stderr and "Traceback" not in ended.stderr


def test_a_resumed_run_ends_with_the_same_line(tmp_path: Path) -> None:
    computes = "    loss, weight = loss_of"
    freeze = FREEZE.replace("len(kept) == 9", "job.epoch >= 1")
    program = task(ADAM) + LOOP.replace(computes, freeze + computes)
    said = "0.weight was frozen after join(), and Adam at the servers would go on with its moments"
    ended = train(tmp_path, program, 1, ["--set", "checkpoint.every_epochs=0.5"])
    assert ended.returncode == 2 and said in ended.stderr
    ended = paceline(tmp_path, "train", "--resume", str(only_run(tmp_path)))
    assert ended.returncode == 2 and said in ended.stderr


def test_a_run_that_freezes_from_its_first_step_is_resumed(tmp_path: Path) -> None:
    computes = "    loss, weight = loss_of"
    fails = "    if job.epoch == 1 and not os.path.exists('failed'):\n        open('failed', 'w')\n        raise ValueError\n"
    program = task(ADAM) + LOOP.replace(computes, "    model[0].requires_grad_(False)\n" + fails + computes)
    ended = train(tmp_path, "import os\n" + program, 1, ["--set", "checkpoint.every_epochs=0.5"])
    assert ended.returncode == 2 and "ValueError" in ended.stderr
    ended = paceline(tmp_path, "train", "--resume", str(only_run(tmp_path)))
    assert ended.returncode == 0, ended.stderr


def test_a_parameter_that_join_found_frozen_cannot_be_unfrozen(tmp_path: Path) -> None:
    unfreeze = FREEZE.replace("(False)", "(True)")
    program = task(ADAM) + LOOP.replace("job = ", "model[0].requires_grad_(False)\njob = ")
    ended = train(tmp_path, program.replace("json.dump", unfreeze + "json.dump"), 1)
    assert ended.returncode == 2
    assert "0.weight was frozen at join() and wants a gradient now; let this job end before that step" in ended.stderr
