"""A program fails on a batch that is too small for it: later batches are larger, and it comes back."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

import pytest
from live_job import needs_paceline, only_run, paceline, replay

pytestmark = needs_paceline

SAMPLES = 640
EPOCHS = 2

# The second worker gets one of the 32 samples of a round as soon as its speed is known. The first one waits in its step until
# the second one has trained on a batch that is large enough.
PROGRAM = f"""
import pathlib
import time
import torch
import paceline

data = torch.utils.data.TensorDataset(torch.randn({SAMPLES}, 3))
model = torch.nn.Linear(3, 1)
job = paceline.join(model, data, optimizer=torch.optim.SGD(model.parameters(), 0.01))
failed, back = pathlib.Path("failed"), pathlib.Path("back")
for (x,) in job:
    if len(x) < 3 and job.name == "w1":
        failed.touch()
    if len(x) < 3:
        raise ValueError("a contrast needs three samples")
    if job.name == "w1" and failed.exists():
        back.touch()
    while job.name == "w0" and failed.exists() and not back.exists():
        time.sleep(0.01)
    loss = model(x).square().mean()
    loss.backward()
    job.step(loss)
"""

JOB = f"""
epochs = {EPOCHS}
batch = 16
parallel = "uneven-data"
[sync]
policy = "POLICY"
[program]
run = "train.py"
python = "{sys.executable}"
[[device]]
pace_ms = 10
[[device]]
pace_ms = 400
"""


def leases(run: Path) -> list[list[int]]:
    """The positions of each gradient that was committed, over all epochs."""
    with sqlite3.connect(run / "journal.sqlite") as journal:
        rows = journal.execute(
            'SELECT m.epoch, m."begin", m."end", s."begin", s."end" FROM members AS m '
            "LEFT JOIN scraps AS s ON s.seq = m.seq AND s.replica = m.replica"
        ).fetchall()
    found = []
    for epoch, begin, end, scrap_begin, scrap_end in rows:
        positions = [*range(scrap_begin or 0, scrap_end or 0), *range(begin, end)]
        found.append([epoch * SAMPLES + position for position in positions])
    return found


@pytest.mark.parametrize("policy", ["bsp", "asp", "ssp:3", "cgp"])
def test_later_batches_are_as_large_as_the_program_needs(tmp_path: Path, policy: str) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "job.toml").write_text(JOB.replace("POLICY", policy))
    ended = paceline(tmp_path, "train", "job.toml")
    assert ended.returncode == 0, ended.stderr
    said = ended.stdout + ended.stderr
    assert "a contrast needs three samples" in said
    assert "From now on a batch has at least 2 samples, and w1 starts its program again" in said
    assert "was lost" not in said
    run = only_run(tmp_path)
    committed = leases(run)
    assert sorted(sum(committed, [])) == list(range(EPOCHS * SAMPLES))
    assert min(len(one) for one in committed) >= 3
    replay(tmp_path, run)


def test_an_error_that_larger_batches_do_not_avoid_ends_the_run_in_one_line(tmp_path: Path) -> None:
    # The last batch of an epoch has one sample, and there is none to add to it.
    (tmp_path / "train.py").write_text(PROGRAM.replace(f"({SAMPLES}, 3)", "(33, 3)"))
    ended = paceline(tmp_path, "run", "train.py", "--python", sys.executable)
    assert ended.returncode == 2, ended.stderr
    assert "this batch has 1 sample, and all before it had 32 or more" in ended.stderr, ended.stderr
    assert "give join() least_batch=2" in ended.stderr
    assert "starts its program again" not in ended.stdout + ended.stderr
