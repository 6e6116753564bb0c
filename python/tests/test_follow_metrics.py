"""examples/monitoring/follow_metrics.py, read back from the files that the tools keep. Both work offline."""

from __future__ import annotations

import json
import sqlite3
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "monitoring" / "follow_metrics.py"
LINES = [
    {"kind": "metrics", "samples": 100, "training_loss": 2.5, "training_metrics": {"perplexity": 12.0}},
    {"kind": "evaluation", "samples": 100, "loss": 2.25, "accuracy": 0.25, "metrics": {"f1": 0.5, "none": None}},
    {"kind": "metrics", "samples": 200, "training_loss": 1.5, "finished": True, "policy": "bsp"},
    {"kind": "evaluation", "samples": 200, "loss": 1.25, "accuracy": 0.75, "metrics": {}},
]
EXPECTED = {
    ("training/training_loss", 100, 2.5),
    ("training/perplexity", 100, 12.0),
    ("evaluation/loss", 100, 2.25),
    ("evaluation/f1", 100, 0.5),
    ("training/training_loss", 200, 1.5),
    ("evaluation/accuracy", 200, 0.75),
}


RESUMED = [
    {"kind": "snapshot", "samples": 250, "training_loss": 1.25, "finished": False},
    {"kind": "evaluation", "samples": 250, "loss": 1.0, "accuracy": 0.75, "metrics": {}},
    {"kind": "snapshot", "samples": 300, "training_loss": 1.0, "finished": False},
    {"kind": "evaluation", "samples": 300, "loss": 0.5, "accuracy": 0.875, "metrics": {}},
    {"kind": "snapshot", "samples": 300, "training_loss": 0.75, "finished": True},
]


def follow(tmp_path: Path, *words: str, lines: list[dict[str, object]] = LINES) -> str:
    run = tmp_path / "run-bsp"
    run.mkdir()
    (run / "job.toml").write_text('name = "a job"\n')
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"kind": "metr')
    done = subprocess.run(
        [sys.executable, SCRIPT, run, *words], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_a_tool_it_prints_the_numbers(tmp_path: Path) -> None:
    printed = [line.split(" ", 1) for line in follow(tmp_path).splitlines()]
    found = {(key, int(step), value) for step, values in printed for key, value in json.loads(values).items()}
    assert found >= EXPECTED
    assert not any(key.endswith(("none", "policy", "finished")) for key, _, _ in found)


def test_a_run_that_was_resumed_is_followed_to_its_own_end(tmp_path: Path) -> None:
    began = time.monotonic()
    printed = follow(tmp_path, lines=LINES + RESUMED).splitlines()
    assert len(printed) == len(LINES) + len(RESUMED)
    assert time.monotonic() - began < 30, "it waited as for a run that goes on"


def test_mlflow_has_every_number(tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    follow(tmp_path, "--mlflow", str(tmp_path / "kept"))
    with sqlite3.connect(tmp_path / "kept" / "mlflow.db") as database:
        assert set(database.execute("SELECT key, step, value FROM metrics")) >= EXPECTED
        assert list(database.execute("SELECT name FROM runs")) == [("run-bsp",)]


def _records(file: Path) -> Iterator[bytes]:
    """The records of a W&B file: LevelDB's log format behind seven bytes. A record may lie in several parts."""
    block, head = 1 << 15, struct.Struct("<IHB")
    whole, last_part = 1, 4
    data, at, record = file.read_bytes(), 7, b""
    while at + head.size <= len(data):
        if block - at % block < head.size:
            at += block - at % block
            continue
        _, size, kind = head.unpack_from(data, at)
        record += data[at + head.size : at + head.size + size]
        at += head.size + size
        if kind in (whole, last_part):
            yield record
            record = b""


def test_weights_and_biases_has_every_number(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    from wandb.proto import wandb_internal_pb2

    follow(tmp_path, "--wandb", str(tmp_path / "kept"))
    [kept] = tmp_path.glob("kept/wandb/offline-run-*/*.wandb")
    found = set()
    for data in _records(kept):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        items = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
        found |= {(key, items["samples"], value) for key, value in items.items() if "samples" in items}
    assert found >= EXPECTED
