"""A program that pauses in each step until a file is there, and the samples that its run has to commit."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from live_job import replay

SAMPLES = 256

PROGRAM = f"""
import os, sys, time
import torch
import torch.nn.functional as F
from torch import nn
import paceline

torch.manual_seed(3)
x = torch.randn({SAMPLES}, 6, generator=torch.Generator().manual_seed(5))
y = (x[:, 0] > 0).long()
model = nn.Linear(6, 2)
epochs, go = int(sys.argv[1]), sys.argv[2]  # the file `go` ends the pauses

def validate():
    return {{"loss": F.cross_entropy(model(x), y), "accuracy": (model(x).argmax(1) == y).float().mean()}}

job = paceline.join(model, torch.utils.data.TensorDataset(x, y), optimizer=torch.optim.SGD(model.parameters(), 0.1),
                    evaluate=None if "blind" in sys.argv else validate, batch_size=8, epochs=epochs)
for inputs, targets in job:
    if not os.path.exists(go):
        time.sleep(0.1)
    while job.epoch > 0 and "stand-still" in sys.argv and not os.path.exists(go):
        time.sleep(0.1)
    loss = F.cross_entropy(model(inputs), targets)
    loss.backward()
    job.step(loss)
"""


def samples_of_kept_commits(run: Path) -> list[tuple[int, int, int]]:
    words = "SELECT epoch, begin, end FROM members JOIN kept_commits USING (seq) WHERE begin IS NOT NULL"
    with sqlite3.connect(run / "journal.sqlite") as journal:
        return sorted(journal.execute(words).fetchall())


def expect_whole_run(folder: Path, run: Path, epochs: int) -> None:
    """Each sample of each epoch was committed once, and a replay gives the same orders."""
    ranges = samples_of_kept_commits(run)
    seen = [(epoch, position) for epoch, begin, end in ranges for position in range(begin, end)]
    assert seen == [(epoch, position) for epoch in range(epochs) for position in range(SAMPLES)]
    replay(folder, run)


def attempts(runs: Path) -> int:
    return _number(runs, "SELECT max(attempt) FROM attempts")


def commits(runs: Path) -> int:
    return _number(runs, "SELECT count(*) FROM commits")


def _number(runs: Path, words: str) -> int:
    """0 while there is no journal yet."""
    for path in runs.glob("*/journal.sqlite"):
        try:
            with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as journal:
                return int(journal.execute(words).fetchone()[0] or 0)
        except sqlite3.OperationalError:
            continue
    return 0
