"""Whole jobs with the real executables: PACELINE names `paceline`. Without it these tests are skipped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

PACELINE = os.environ.get("PACELINE", "")
pytestmark = pytest.mark.skipif(not PACELINE, reason="PACELINE does not name the executable")

PROGRAM = """
import json, os, sys
import torch, torch.nn as nn, torch.nn.functional as F
import paceline

torch.manual_seed(0)
x = torch.randn(640, 10)
y = (x[:, 0] > 0).long()
model = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)

def validate():
    return {"loss": F.cross_entropy(model(x), y).item(), "accuracy": (model(x).argmax(1) == y).float().mean().item()}

job = paceline.join(model, torch.utils.data.TensorDataset(x, y), optimizer=optimizer, evaluate=validate,
                    batch_size=16, epochs=2, num_workers=int(sys.argv[1]))
seen = []
for inputs, targets in job:
    loss = F.cross_entropy(model(inputs), targets)
    loss.backward()
    seen.append(list(job.samples))
    job.step(loss)
if job.role == "worker":
    with open(f"seen-{job.name}.json", "w") as file:
        json.dump(seen, file)
"""


def make_model() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    x = torch.randn(640, 10)
    y = (x[:, 0] > 0).long()
    return nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 2)), x, y


def paceline(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = dict(os.environ, PYTHONPATH=str(Path(__file__).parents[1]))
    return subprocess.run([PACELINE, *words], cwd=folder, env=env, capture_output=True, text=True, timeout=600)


def train(folder: Path, devices: int, *more: str, workers: int = 0) -> Path:
    (folder / "train.py").write_text(PROGRAM)
    words = ["run", "train.py", "--python", sys.executable, "--devices", str(devices), *more, str(workers)]
    ended = paceline(folder, *words)
    assert ended.returncode == 0, ended.stderr
    [run] = (folder / "runs").iterdir()
    return run


def exported(folder: Path, run: Path) -> dict[str, torch.Tensor]:
    ended = paceline(folder, "export", str(run), "model.safetensors")
    assert ended.returncode == 0, ended.stderr
    return read_safetensors(folder / "model.safetensors")


def read_safetensors(path: Path) -> dict[str, torch.Tensor]:
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    assert header.pop("__metadata__")["format"] == "pt"
    types = {"F32": torch.float32, "I64": torch.int64}
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        raw = bytearray(data[8 + size + begin : 8 + size + end])
        tensors[name] = torch.frombuffer(raw, dtype=types[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def plain_training(batches: list[list[int]]) -> nn.Module:
    """Plain PyTorch on the same samples."""
    model, x, y = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
    for batch in batches:
        optimizer.zero_grad()
        F.cross_entropy(model(x[batch]), y[batch]).backward()
        optimizer.step()
    return model


@pytest.mark.parametrize("devices", [1, 2, 4])
def test_bulk_synchronous_training_is_plain_pytorch(tmp_path: Path, devices: int) -> None:
    run = train(tmp_path, devices)
    seen = [json.loads((tmp_path / f"seen-w{i}.json").read_text()) for i in range(devices)]
    rounds = max(len(one) for one in seen)
    batches = [[index for one in seen if k < len(one) for index in one[k]] for k in range(rounds)]
    assert sorted(index for batch in batches for index in batch) == sorted(2 * list(range(640)))
    model, _, _ = make_model()
    model.load_state_dict(exported(tmp_path, run), strict=True)
    for ours, plain in zip(model.parameters(), plain_training(batches).parameters()):
        assert (ours - plain).abs().max() <= 1e-5 * plain.abs().max()


@pytest.mark.parametrize("policy", ["asp", "ssp:3", "dssp:3-15", "elastic-bsp:5", "cgp", "local-sgd:4", "backup:1"])
def test_every_policy_trains_and_replays(tmp_path: Path, policy: str) -> None:
    run = train(tmp_path, 2, "--policy", policy, workers=1)
    seen = [index for i in range(2) for one in json.loads((tmp_path / f"seen-w{i}.json").read_text()) for index in one]
    if not policy.startswith("backup"):
        assert sorted(seen) == sorted(2 * list(range(640)))
    replayed = paceline(tmp_path, "replay", str(run))
    assert replayed.returncode == 0, replayed.stderr


def test_virtual_time_gives_the_same_trace_twice(tmp_path: Path) -> None:
    traces = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "train.py").write_text(PROGRAM)
        words = ["run", "train.py", "--python", sys.executable, "--devices", "3", "--policy", "asp", "--virtual", "0"]
        ended = paceline(folder, *words)
        assert ended.returncode == 0, ended.stderr
        traces.append(next(line for line in ended.stdout.splitlines() if line.startswith("trace:")))
    assert traces[0] == traces[1]
