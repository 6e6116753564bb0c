"""What `paceline export RUN --tensorboard` writes, read back by TensorBoard's own reader. PACELINE names the executable."""

from __future__ import annotations

import json
import os
import subprocess
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
    assert [one.wall_time - start for one in losses] == pytest.approx([one["time_s"] for one in evaluations], abs=1e-3)


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
