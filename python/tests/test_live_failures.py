"""Programs that fail in a job with the real executable: one line each, and nobody else comes to harm.

In one job w1, w2 and w3 fail in different ways, and w0 trains on.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

import pytest
from live_job import PACELINE, environment, exported, needs_paceline, only_run, replay, run_words, trained

pytestmark = needs_paceline

# Its argument says who fails where, and how: "data=w1:raise,w2:kill".
PROGRAM = """
import os, signal, sys, time
import torch, torch.nn as nn, torch.nn.functional as F
import paceline
import paceline.job
from paceline.session import session

where, _, plan = sys.argv[1].partition("=")
plan = dict(one.split(":") for one in plan.split(","))
start = session()
mine = plan.get(start.name if start.role == "worker" else start.role)

def fail(place):
    if place != where or mine is None:
        return
    if mine == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if mine == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    raise ValueError("at " + place)

fail("model")
torch.manual_seed(0)
x = torch.randn(480, 10)
y = (x[:, 0] > 0).long()
model = nn.Sequential(nn.Linear(10, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 2))

write_initial = paceline.optimizer_state.write_initial
def initial(*arguments):
    fail("initial")
    write_initial(*arguments)
paceline.optimizer_state.write_initial = initial

class Points(torch.utils.data.Dataset):
    def __len__(self):
        return len(y)
    def __getitem__(self, index):
        fail("loader process" if torch.utils.data.get_worker_info() else "data set")
        return x[index], y[index]

def validate():
    fail("evaluate")
    return F.cross_entropy(model(x), y)

job = paceline.join(model, Points(), optimizer=torch.optim.SGD(model.parameters(), lr=0.1), evaluate=validate,
                    batch_size=8, epochs=1, num_workers=int(where == "loader process"))
steps = 0
for inputs, targets in job:
    steps += 1
    while steps == 5 and not os.path.exists("go"):
        time.sleep(0.02)  # the job goes on until all that should be said of others has been
    if steps in (1, 3):
        fail("step %d" % steps)
    loss = F.cross_entropy(model(inputs), targets)
    loss.backward()
    how = mine if where == "attack" and steps == 3 else None
    if how == "no number as gradient":
        model[3].weight.grad[0, 0] = float("nan")
    if how == "no number as statistic":
        model[1].running_var.fill_(float("inf"))
    if how == "no number as loss":
        loss = loss * float("nan")
    if how == "another shape":
        model[0].weight.data = torch.zeros(2, 2)
    if how == "two steps":
        job.step(loss)
    if how == "no step":
        continue
    if how == "rubbish":
        os.write(start.channel._fd, b"what?\\n")
    if how == "an endless line":
        os.write(start.channel._fd, b"x" * 20_000_000)
    if how == "another answer":
        os.write(start.channel._fd, b'{"type":"done"}\\n')
    if how == "a written weight":
        model[0].bias.data.zero_()
    if how == "an exit":
        sys.exit(0)
    if how == "a closed socket":
        os.close(start.channel._fd)
    job.step(loss)
if job.is_first:
    with open("wrote", "a") as file:
        file.write(job.name)
fail("end")
"""

LOST = re.compile(r"(\w+) was lost \((.*)\);")
UNEVALUATED = ["--set", "evaluate.enabled=false"]


class Ended(NamedTuple):
    status: int
    errors: str


def fail(folder: Path, how: str, devices: int, expected: int, more: list[str] = UNEVALUATED) -> Ended:
    """Runs it until `expected` workers were lost, and then to the end."""
    words = [PACELINE, *run_words(folder, PROGRAM, devices, more, [how])]
    log = folder / "errors.txt"
    until = time.monotonic() + 300
    with open(log, "w") as errors, subprocess.Popen(words, cwd=folder, env=environment(), stderr=errors) as job:
        while job.poll() is None and len(LOST.findall(log.read_text())) < expected:
            if time.monotonic() > until:
                job.kill()
            time.sleep(0.05)
        (folder / "go").touch()
    expect_no_program_left(folder)
    return Ended(job.returncode, log.read_text())


def lost(ended: Ended) -> dict[str, str]:
    """Who was lost, and why. Nobody twice."""
    found = LOST.findall(ended.errors)
    assert len(found) == len(dict(found)), ended.errors
    return dict(found)


def expect_no_program_left(folder: Path) -> None:
    """Neither a program nor a child of one. A script may take its time after the job."""
    until = time.monotonic() + 60
    while left := [process for process in Path("/proc").glob("[0-9]*") if _runs_in(process, folder)]:
        assert time.monotonic() < until, [(process / "cmdline").read_text() for process in left]
        time.sleep(0.1)


def _runs_in(process: Path, folder: Path) -> bool:
    try:
        return os.readlink(process / "cwd") == str(folder)
    except OSError:
        return False  # the process has just ended


def expect_all_trained(folder: Path, ended: Ended, status: int = 0) -> None:
    assert ended.status == status, ended.errors
    summary = json.loads((only_run(folder) / "summary.json").read_text())["summary"]
    assert summary["samples"] == summary["total_samples"] == 480
    replay(folder, only_run(folder))
    for name, tensor in exported(folder, only_run(folder)).items():
        assert bool(tensor.isfinite().all()), name


@pytest.mark.parametrize("where", ["step 1", "step 3", "data set"])
def test_raised_killed_and_stopped(tmp_path: Path, where: str) -> None:
    ended = fail(tmp_path, f"{where}=w1:raise,w2:kill,w3:stop", 4, 3)
    why = lost(ended)
    sample = r", at sample \d+ of the training set" if where == "data set" else ""
    assert re.fullmatch(rf"train\.py:\d+: ValueError: at {where}{sample}", why["w1"])
    assert why["w2"] == "train.py: the program ended (killed by signal 9 (Killed))"
    assert why["w3"] == "train.py: the program was stopped by a signal and does not go on"
    assert len(why) == 3
    assert (tmp_path / "wrote").read_text() == "w0"
    expect_all_trained(tmp_path, ended)


def test_another_worker_writes_if_the_first_is_lost(tmp_path: Path) -> None:
    ended = fail(tmp_path, "step 3=w0:kill", 3, 1)
    assert list(lost(ended)) == ["w0"]
    assert (tmp_path / "wrote").read_text() == "w1"
    expect_all_trained(tmp_path, ended)


def test_loader_processes(tmp_path: Path) -> None:
    ended = fail(tmp_path, "loader process=w1:raise,w2:kill", 3, 2)
    why = lost(ended)
    assert re.fullmatch(r"train\.py:\d+: ValueError: at loader process, at sample \d+ of the training set", why["w1"])
    assert re.fullmatch(r"train\.py:\d+: the loader process \d+ of this program was killed \(Killed\); .*", why["w2"])
    assert len(why) == 2
    expect_all_trained(tmp_path, ended)


@pytest.mark.parametrize(
    "how, says",
    [
        ("model=w1:raise", r"train\.py:\d+: ValueError: at model"),
        ("initial=w0:raise,w1:raise", r"train\.py:\d+: ValueError: at initial"),
        ("initial=w0:kill,w1:kill", r"train\.py: the program ended \(killed by signal 9 \(Killed\)\)"),
        ("model=w1:stop", r"train\.py: the program was stopped by a signal and does not go on"),
    ],
)
def test_before_the_training_the_job_ends(tmp_path: Path, how: str, says: str) -> None:
    """Nothing is lost yet, and the process that started it is still there to read the line."""
    ended = fail(tmp_path, how, 2, 0)
    assert ended.status == 2 and not lost(ended)
    assert re.search(rf"^paceline: {says}; logs: .*$", ended.errors, re.MULTILINE), ended.errors


def test_what_fails_after_the_loop_costs_the_job_nothing(tmp_path: Path) -> None:
    limited = [*UNEVALUATED, "--set", "program.after_limit_s=5"]
    ended = fail(tmp_path, "end=w1:raise,w2:kill,w3:stop", 4, 0, limited)
    assert not lost(ended)
    says = r"w[123]: train\.py: .* after the job was over; logs/w[123]\.log says more, and nothing of the run is lost"
    assert re.search(rf"^paceline: {says}$", ended.errors, re.MULTILINE), ended.errors
    expect_all_trained(tmp_path, ended, 2)


def test_without_its_evaluator_a_job_trains_on(tmp_path: Path) -> None:
    ended = fail(tmp_path, "evaluate=evaluator:raise", 1, 0, [])
    assert re.fullmatch(r"train\.py:\d+: ValueError: at evaluate", lost(ended)["evaluator"])
    expect_all_trained(tmp_path, ended)


@pytest.mark.parametrize(
    "attacks",
    [
        {
            "another shape": r"train\.py:\d+: 0\.weight had the shape \[16, 10\] at join\(\) and has \[2, 2\] now, .*; give .*",
        },
        {
            "two steps": r"train\.py:\d+: job\.step\(\) was called twice for one batch; call it once, behind the backward pass",
            "no step": r"train\.py:\d+: the loop went on to the next batch without job\.step\(\); .*",
            "an exit": r"train\.py:\d+: the loop over the job was left before the job's end .*",
        },
        {
            "rubbish": r"train\.py: the program sent a line that is not a message: .*",
            "an endless line": r"train\.py: the program sent a line that is too long",
            "another answer": r"train\.py: the program answered out of turn",
        },
        {
            "a written weight": r"train\.py:\d+: the program wrote to the weight 0\.bias, .*",
            "a closed socket": r"train\.py: the program ended \(exit status 1\)",
        },
    ],
    ids=lambda attacks: ", ".join(attacks),
)
def test_attacks(tmp_path: Path, attacks: dict[str, str]) -> None:
    plan = ",".join(f"w{number}:{how}" for number, how in enumerate(attacks, 1))
    ended = fail(tmp_path, "attack=" + plan, len(attacks) + 1, len(attacks))
    why = lost(ended)
    assert len(why) == len(attacks)
    for number, says in enumerate(attacks.values(), 1):
        assert re.fullmatch(says, why[f"w{number}"]), why
    expect_all_trained(tmp_path, ended)


def events_of(folder: Path) -> list[dict[str, str]]:
    events: list[dict[str, str]] = json.loads((only_run(folder) / "summary.json").read_text())["events"]
    return events


def test_gradients_that_are_not_finite_are_discarded(tmp_path: Path) -> None:
    ended = fail(tmp_path, "attack=w1:no number as gradient,w2:no number as statistic", 3, 0)
    assert not lost(ended)
    # A run of milliseconds may end before its starter asks for news; what happened is in its report.
    told = "\n".join(event["text"] for event in events_of(tmp_path))
    assert re.search(r"w1: '3\.weight' is not finite in its gradient, at a loss of 0\.\d+ \(version \d+, ", told)
    assert re.search(r"w2: '1\.running_var' is not finite in its gradient", told)
    expect_all_trained(tmp_path, ended)


def test_a_loss_that_is_no_number_is_seen_and_harms_nobody(tmp_path: Path) -> None:
    ended = fail(tmp_path, "attack=w1:no number as loss", 2, 0)
    assert not lost(ended)
    expect_all_trained(tmp_path, ended)
    assert [event["text"] for event in events_of(tmp_path) if event["replica"] == "w1"][
        1
    ] == "its training loss is not a finite number"


# One sample has no gradient, on any worker; and the first evaluation has no loss.
POISON = """
import torch, torch.nn as nn, torch.nn.functional as F
import paceline

torch.manual_seed(0)
x = torch.randn(480, 10)
y = (x[:, 0] > 0).long()
model = nn.Sequential(nn.Linear(10, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 2))
losses = []

def validate():
    losses.append(F.cross_entropy(model(x), y))
    return losses[-1] if len(losses) > 1 else float("nan")

job = paceline.join(model, torch.utils.data.TensorDataset(x, y), optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
                    evaluate=validate, batch_size=8, epochs=2)
for inputs, targets in job:
    loss = F.cross_entropy(model(inputs), targets)
    if 7 in job.samples:
        loss = loss * float("nan")
    loss.backward()
    job.step(loss, skipped=not bool(loss.isfinite()))
"""


def test_a_batch_that_every_worker_skips_and_an_evaluation_without_a_number_end_nothing(tmp_path: Path) -> None:
    run = trained(tmp_path, POISON, 2)
    replay(tmp_path, run)
    summary = json.loads((run / "summary.json").read_text())
    assert summary["summary"]["samples"] == summary["summary"]["total_samples"] == 960
    assert not any("lost" in event["text"] for event in summary["events"]), summary["events"]
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    measured = [line.get("loss") for line in lines if line["kind"] == "evaluation"]
    assert measured[0] is None and measured[-1] < 0.6, measured
    assert all(bool(tensor.isfinite().all()) for tensor in exported(tmp_path, run).values())
