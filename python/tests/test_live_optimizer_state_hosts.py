"""An optimizer that has a state at join(), in a job whose first host keeps all weights."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from chaos_hosts import ChaosHosts
from live_job import exported, needs_paceline, paceline
from torch import allclose

pytestmark = needs_paceline

# All samples are the same, so each step has the same batch.
TASK = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.Adam(model.parameters(), 0.01)

def loss_of(x, y):
    return (model(x) - y).square().mean()

x, y = torch.ones(64, 3), torch.ones(64, 1)
for scale in (1, 5):
    optimizer.zero_grad()
    loss_of(scale * x, y).backward()
    optimizer.step()
optimizer.zero_grad()
"""

LOOP = """
import paceline

data = torch.utils.data.TensorDataset(x, y)
job = paceline.join(model, data, optimizer=optimizer, batch_size=4)
for batch in job:
    loss = loss_of(*batch)
    loss.backward()
    job.step(loss)
"""

JOB = """
name = "hosts"
[network]
listen = "127.0.0.1:{port}"
certs = "certs/hosts"
[cluster]
placement = "central"
[evaluate]
enabled = false
[program]
run = "train.py"
python = "{python}"
[[device]]
host = {first}
[[device]]
host = 1
"""


def started(folder: Path, first: int) -> ChaosHosts:
    hosts = ChaosHosts(folder, own_disks=True)
    (folder / "train.py").write_text(TASK + LOOP)
    (folder / "job.toml").write_text(JOB.format(port=hosts.port, python=sys.executable, first=first))
    assert paceline(folder, "certs", "certs", "--job", "hosts").returncode == 0
    hosts.start()
    return hosts


def test_the_host_that_keeps_all_weights_goes_on_with_the_state(tmp_path: Path) -> None:
    hosts = started(tmp_path, first=0)
    try:
        assert hosts.exit_statuses(240) == [0, 0], hosts.said()
        ours = exported(tmp_path, hosts.run)
    finally:
        hosts.kill_all()
    plain: dict[str, Any] = {}
    exec(TASK, plain)
    for _ in range(8):
        plain["optimizer"].zero_grad()
        plain["loss_of"](plain["x"], plain["y"]).backward()
        plain["optimizer"].step()
    for name, value in plain["model"].state_dict().items():
        assert allclose(ours[name], value, atol=1e-6), name


def test_if_the_first_host_has_no_device_one_line_says_that_the_state_cannot_get_there(tmp_path: Path) -> None:
    hosts = started(tmp_path, first=1)
    try:
        assert hosts.exit_statuses(240) == [2, 2], hosts.said()
        lines = [line for line in hosts.said().splitlines() if line.startswith("paceline: ")]
    finally:
        hosts.kill_all()
    assert len(lines) == 2, lines
    for line in lines:
        assert "the first host has no device, and the state that the optimizer has at join() cannot go to" in line
        assert "; add a [[device]] with host = 0, or give join() an optimizer without a state" in line
