"""Models of unusual parts have plain PyTorch's weights, and their files load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from live_job import exported, needs_paceline, trained

pytestmark = needs_paceline

HEAD = """
import torch, torch.nn as nn, torch.nn.functional as F

def task():
    torch.manual_seed(0)
    x = torch.randn(40, 4)
    return x, x[:, :1]

class Extra(nn.Linear):
    def get_extra_state(self):
        return {"scale": 2.0}
    def set_extra_state(self, state):
        pass
"""
LOOP = """
import json, paceline
model, (x, y) = make(), task()
job = paceline.join(model, torch.utils.data.TensorDataset(x, y), optimizer=torch.optim.SGD(model.parameters(), 0.1),
                    batch_size=16, epochs=2)
kept = []
for x, y in job:
    loss = F.mse_loss(model(x), y)
    loss.backward()
    kept.append(job.samples)
    job.step(loss)
json.dump(kept, open("kept.json", "w"))
"""
PARTS = {
    "scripted": "torch.jit.script(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8)))",
    "batch norm": "nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.BatchNorm1d(8, momentum=None))",
    "spectral norm": "nn.utils.parametrizations.spectral_norm(nn.Linear(4, 8))",
    "traced": "torch.jit.trace(nn.Linear(4, 8), torch.zeros(1, 4))",
    "extra state": "Extra(4, 8)",
    "weight norm": "nn.utils.parametrizations.weight_norm(nn.Linear(4, 8))",
}


@pytest.mark.parametrize("part", PARTS)
def test_a_part(tmp_path: Path, part: str) -> None:
    make = f"""
def make():
    torch.manual_seed(1)
    return nn.Sequential({PARTS[part]}, nn.Tanh(), nn.Linear(8, 1))
"""
    run = trained(tmp_path, HEAD + make + LOOP, 1)
    scope: dict[str, Any] = {}
    exec(HEAD + make, scope)
    model, (x, y) = scope["make"](), scope["task"]()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for samples in json.loads((tmp_path / "kept.json").read_text()):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x[samples]), y[samples]).backward()
        optimizer.step()
    ours = exported(tmp_path, run)
    for name, value in model.state_dict().items():
        if torch.is_tensor(value):
            assert torch.allclose(ours[name].double(), value.double(), atol=1e-5), name
    lacking = model.load_state_dict(ours, strict=False)
    assert not lacking.unexpected_keys and all(name.endswith("_extra_state") for name in lacking.missing_keys)
