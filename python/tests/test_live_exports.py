"""Tests of `paceline export RUN --tensorboard` by TensorBoard's own reader. PACELINE names the executable."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

PACELINE = os.environ.get("PACELINE", "")
pytestmark = pytest.mark.skipif(not PACELINE, reason="PACELINE does not name the executable")
accumulators = pytest.importorskip(
    "tensorboard.backend.event_processing.event_accumulator", reason="tensorboard is not installed here"
)

JOB = """
name = "small"
runs_dir = "runs"
batch = 8
epochs = 1
[model]
name = "gpt-byte"
width = 16
layers = 1
heads = 2
context = 16
[data]
source = "text:text.txt"
train_samples = 1200
test_samples = 100
[evaluate]
every_epochs = 0.25
[[device]]
count = 2
pace_ms = 20
[[device]]
pace_ms = 60
[sync]
policy = "ssp:2"
"""


def paceline(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([PACELINE, *words], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exports")
    (folder / "text.txt").write_text("".join(f"line {i} of {i % 7} says {i * i % 1013}\n" for i in range(4000)))
    (folder / "job.toml").write_text(JOB)
    paceline(folder, "train", "job.toml", "--virtual")
    [run] = (folder / "runs").iterdir()
    return run


@pytest.fixture(scope="module")
def board(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("board")
    paceline(folder, "export", str(run), "--tensorboard", ".")
    # All of each: by itself it keeps a part.
    keep = dict.fromkeys(("scalars", "histograms", "tensors"), 0)
    accumulator = accumulators.EventAccumulator(str(folder / run.name), size_guidance=keep)
    accumulator.Reload()
    return accumulator


def test_evaluations_are_those_of_the_run(run: Path, board: Any) -> None:
    evaluations = json.loads((run / "summary.json").read_text())["evaluations"]
    losses = board.Scalars("evaluation/loss")
    assert [one.step for one in losses] == [one["samples"] for one in evaluations]
    assert [one.value for one in losses] == pytest.approx([one["loss"] for one in evaluations], rel=1e-6)
    start = losses[0].wall_time - evaluations[0]["time_s"]
    assert [one.wall_time - start for one in losses] == pytest.approx(
        [one["time_s"] for one in evaluations], abs=1e-3
    )


def test_training_has_a_point_for_each_bulk(board: Any) -> None:
    for tag in ("loss", "learning_rate", "samples_per_s", "staleness"):
        points = board.Scalars(f"training/{tag}")
        assert len(points) > 20
        assert [one.step for one in points] == sorted(one.step for one in points)
        assert all(one.value >= 0 for one in points)


def test_each_gradient_is_in_one_histogram(run: Path, board: Any) -> None:
    summary = json.loads((run / "summary.json").read_text())
    histograms = [one.histogram_value for one in board.Histograms("staleness")]
    assert sum(one.num for one in histograms) == sum(summary["staleness"]["counts"])
    assert all(sum(one.bucket) == pytest.approx(one.num) for one in histograms)
    assert sum(one.histogram_value.num for one in board.Histograms("group_size")) == summary["summary"]["commits"]


def test_the_job_is_there_as_text(board: Any) -> None:
    [text] = board.Tensors("job")
    assert b"gpt-byte" in text.tensor_proto.string_val[0]
    [sentence] = board.Tensors("what held it back")
    assert sentence.tensor_proto.string_val[0]


def test_hyperparameters_are_read_by_their_plugin(board: Any) -> None:
    from tensorboard.plugins.hparams import metadata

    contents = board.SummaryMetadata(metadata.SESSION_START_INFO_TAG).plugin_data.content
    values = metadata.parse_session_start_info_plugin_data(contents).hparams
    assert values["policy"].string_value == "ssp:2"
    assert values["devices"].number_value == 3
    end = metadata.parse_session_end_info_plugin_data(
        board.SummaryMetadata(metadata.SESSION_END_INFO_TAG).plugin_data.content
    )
    assert end.status == 1  # success


def started_and_stopped(folder: Path, words: list[str], enough: Any, how: int) -> None:
    """Runs it until `enough` holds, and ends it then."""
    with subprocess.Popen(
        [PACELINE, *words], cwd=folder, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    ) as run:
        end = time.monotonic() + 120
        while not enough() and time.monotonic() < end and run.poll() is None:
            time.sleep(0.1)
        run.send_signal(how)
        run.wait(timeout=60)


def test_a_board_that_is_open_follows_a_run_that_is_killed_and_resumed(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("".join(f"line {i} of {i % 7} says {i * i % 1013}\n" for i in range(4000)))
    job = JOB.replace("epochs = 1", "epochs = 4") + "[export]\ntensorboard = true\n[checkpoint]\nevery_epochs = 0.2\n"
    (tmp_path / "job.toml").write_text(job)
    runs = tmp_path / "runs"

    def own() -> Path:
        [run] = runs.iterdir()
        return run

    def evaluated(count: int) -> bool:
        return (
            runs.exists()
            and len(list(own().glob("tensorboard/*/events*"))) > 0
            and (own() / "metrics.jsonl").read_text().count('"evaluation"') >= count
        )

    started_and_stopped(tmp_path, ["train", "job.toml"], lambda: evaluated(3), signal.SIGKILL)
    time.sleep(1)
    board = accumulators.EventAccumulator(str(own() / "tensorboard" / own().name), size_guidance={"scalars": 0})
    board.Reload()
    before = [one.step for one in board.Scalars("training/loss")]
    assert before
    paceline(tmp_path, "train", "--resume", str(own()))
    board.Reload()
    summary = json.loads((own() / "summary.json").read_text())
    points = board.Scalars("training/loss")
    steps = [one.step for one in points]
    assert steps == sorted(set(steps)), "what was lost is still there"
    assert steps[-1] == summary["summary"]["samples"] > before[-1]
    losses = [one.value for one in board.Scalars("evaluation/loss")]
    assert losses == pytest.approx([one["loss"] for one in summary["evaluations"]], rel=1e-6)
    names = sorted(file.name for file in own().glob("tensorboard/*/events*"))
    # One more where the resumed run went back to its checkpoint after the first look at its journal.
    assert len(names) in (2, 3) and names[0].endswith(".0001"), names
    sizes = [file.stat().st_size for file in sorted(own().glob("tensorboard/*/events*"))]
    assert all(size == 0 for size in sizes[:-1]) and sizes[-1] > 0, sizes
