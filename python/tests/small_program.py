"""A program that trains a small network on made-up data; its argument is the number of loader processes."""

from __future__ import annotations

import torch
from torch import nn

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
