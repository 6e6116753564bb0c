"""Values of a job file reach the program, and values that the program gave are not asked for again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from live_job import PACELINE, environment, needs_paceline, only_run, paceline
from scripts import HEAD, LOOP

pytestmark = needs_paceline

JOB = """
batch = 8
epochs = 2
[[device]]
count = 2
[program]
run = "train.py"
python = "{python}"
"""

# A rate that halves after four steps. Two workers with batches of 8 make 16 samples a step, so 64 samples are one epoch.
HALVES = """
optimizer = torch.optim.SGD((model := Net()).parameters(), lr=0.1)
halves = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 if step < 4 else 0.5)
job = paceline.join(model, Points(), optimizer=optimizer, schedule=halves, schedule_per="step")
"""

WRITES = """
model = Net()
job = paceline.join(model, Points())
for x, y in job:
    loss = loss_of(model, x, y)
    loss.backward()
    model.last.bias.data.add_(1)
    job.step(loss)
"""

# Who was started says so.
ASKED = """
with open("starts", "a") as file:
    print(sys.argv[1:], file=file)
model = Net()
"""


def with_job(folder: Path, program: str, more: str = "") -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(HEAD + program)
    (folder / "job.toml").write_text(JOB.format(python=sys.executable) + more)
    return paceline(folder, "train", "job.toml")


def by_hand(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(HEAD + ASKED + program)
    return subprocess.run(
        [sys.executable, "train.py", "of mine"],
        cwd=folder,
        env={**environment(), "PACELINE": PACELINE},
        capture_output=True,
        text=True,
        timeout=600,
    )


def starts(folder: Path) -> list[str]:
    return (folder / "starts").read_text().splitlines()


def test_a_schedule_of_steps_has_the_job_files_batch(tmp_path: Path) -> None:
    ended = with_job(tmp_path, HALVES + LOOP)
    assert ended.returncode == 0, ended.stderr
    job = (only_run(tmp_path) / "job.toml").read_text().replace(" ", "").replace("\n", "")
    assert "[1.0,0.5]" in job, job


def test_weights_may_be_copied_as_the_job_file_says(tmp_path: Path) -> None:
    refused = with_job(tmp_path, WRITES)
    assert refused.returncode == 2 and 'weights="copy"' in refused.stderr, refused.stderr
    ended = with_job(tmp_path, WRITES, 'weights = "copy"\n')
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("evaluates", [False, True])
def test_a_program_that_a_person_starts_is_not_asked_again(tmp_path: Path, evaluates: bool) -> None:
    evaluate = ", evaluate=lambda: 1.0" if evaluates else ""
    ended = by_hand(tmp_path, f"job = paceline.join(model, Points(), batch_size=8{evaluate})" + LOOP)
    assert ended.returncode == 0, ended.stderr
    # This one, which is the executable now, the worker's and the evaluator's.
    assert starts(tmp_path) == ["['of mine']"] * (3 if evaluates else 2)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("weights='move'", 'neither "view" nor "copy"'),
        ("optimizer=torch.optim.LBFGS(model.parameters())", "LBFGS"),
        ("evaluate=lambda a, b: 1.0", "evaluate"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(tmp_path: Path, wrong: str, says: str) -> None:
    ended = by_hand(tmp_path, f"job = paceline.join(model, Points(), {wrong})" + LOOP)
    assert ended.returncode == 2 and says in ended.stderr, ended.stderr
    assert "Traceback" not in ended.stderr and not (tmp_path / "runs").exists()


def test_a_variable_that_was_left_over_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(HEAD + ASKED + "job = paceline.join(model, Points())" + LOOP)
    for left in ("0", "2", "77", "x", ""):
        ended = subprocess.run(
            [PACELINE, "run", "--python", sys.executable, "train.py"],
            cwd=tmp_path,
            env={**environment(), "PACELINE_SAID_FD": left},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert ended.returncode == 0, ended.stderr
    assert len(starts(tmp_path)) == 5 * 2
