"""Settings of a program that a job cannot have are refused at the program's line, and a batch may be too large."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from live_job import needs_paceline, only_run, train

pytestmark = needs_paceline

PROGRAM = """
import sys
import torch
import paceline

model = torch.nn.Linear(3, 1)
data = torch.utils.data.TensorDataset(torch.ones(20, 3))
optimizer = torch.optim.SGD(model.parameters(), eval(sys.argv[2]))
asked = eval(sys.argv[1])
job = paceline.join(model, data, optimizer=optimizer, **asked)
for (x,) in job:
    loss = model(x).square().mean()
    loss.backward()
    job.step(loss)
"""

# name: the arguments of join(), the learning rate, the words of the refusal
REFUSED = {
    "endless epochs": ("dict(epochs=1e15)", "0.1", "epochs = 1e+15: write a number from "),
    "a rate": ("dict(epochs=1)", "1e12", "optimizer.lr = 1000000000000.0: write a number from "),
    "a norm": ("dict(epochs=1, clip=1e30)", "0.1", "clip = 1e+30: write a number from "),
    "a least batch": (
        "dict(epochs=1, least_batch=2**40)",
        "0.1",
        "least_batch = 1099511627776: write a whole number",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_setting_that_no_job_has_is_refused_where_the_program_says_it(tmp_path: Path, what: str) -> None:
    asked, rate, says = REFUSED[what]
    ended = train(tmp_path, PROGRAM, 1, arguments=[asked, rate])
    assert ended.returncode == 2, ended.stderr
    line = PROGRAM.split("\n").index("job = paceline.join(model, data, optimizer=optimizer, **asked)") + 1
    [said] = ended.stderr.splitlines()
    assert said.startswith(f"paceline: train.py:{line}: {says}"), said


@pytest.mark.parametrize("policy", ["bsp", "asp"])
@pytest.mark.parametrize("batch", [32, 10**9])
def test_a_batch_larger_than_the_data_set_takes_all_of_it(tmp_path: Path, policy: str, batch: int) -> None:
    ended = train(tmp_path, PROGRAM, 2, ["--policy", policy], [f"dict(epochs=3, batch_size={batch})", "0.1"])
    assert ended.returncode == 0, ended.stderr
    summary = json.loads((only_run(tmp_path) / "summary.json").read_text())["summary"]
    assert summary["samples"] == summary["total_samples"] == 60
