"""Two hosts whose shards are not the same: the job ends in one line that says so, and nothing else was trained."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
import stream_kinds
from chaos_hosts import ChaosHosts, committed
from live_job import needs_paceline, paceline

pytestmark = needs_paceline

PROGRAM = """
import os, sys
import torch
from torch import nn
import paceline
import stream_kinds
from paceline.streams import Stream

kind = sys.argv[1]
stream = Stream(stream_kinds.source(kind, f"data{os.environ['CHAOS_RANK']}"), shuffle=20, interleave=3, stride=4,
                map=lambda record: torch.tensor([float(stream_kinds.number(kind, record))]))
model = nn.Linear(1, 1)
job = paceline.join(model, stream, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), batch_size=4)
for batch in job:
    model(batch).mean().backward()
    job.step(0.0)
"""

JOB = """
name = "hosts"
[network]
listen = "127.0.0.1:{port}"
certs = "certs/hosts"
[sync]
policy = "bsp"
[evaluate]
enabled = false
[program]
run = "train.py"
args = ["{kind}"]
python = "{python}"
[[device]]
count = 2
"""

SHARDS = [list(range(10)), list(range(10, 30)), list(range(30, 45))]
FEWER = [SHARDS[0], SHARDS[1][:-1], SHARDS[2]]
MOVED = [SHARDS[0], SHARDS[1][:-1], [29, *SHARDS[2]]]  # one record is in another shard


def trained_on(folder: Path, kind: str, others: list[list[int]], rename: bool = False) -> tuple[list[int], str, int]:
    """The exit statuses, what was said, and the number of samples that were committed."""
    hosts = ChaosHosts(folder, own_disks=True)
    stream_kinds.write(kind, folder / "data0", SHARDS)
    stream_kinds.write(kind, folder / "data1", others)
    if rename:
        last = sorted((folder / "data1").iterdir())[-1]
        last.rename(last.with_stem("other"))
    shutil.copy(stream_kinds.__file__, folder)
    (folder / "train.py").write_text(PROGRAM)
    (folder / "job.toml").write_text(JOB.format(port=hosts.port, kind=kind, python=sys.executable))
    assert paceline(folder, "certs", "certs", "--job", "hosts").returncode == 0
    hosts.start()
    try:
        return hosts.exit_statuses(240), hosts.said(), committed(hosts.run)
    finally:
        hosts.kill_all()


@pytest.mark.parametrize(
    ("kind", "others", "rename"),
    [
        ("lines", SHARDS, True),
        ("lines", FEWER, False),
        ("lines", MOVED, False),
        ("function", SHARDS, True),
        ("function", FEWER, False),
    ],
    ids=["other name", "fewer records", "as many records", "unknown length, other name", "unknown length, fewer"],
)
def test_hosts_with_other_shards_end_in_one_line(
    tmp_path: Path, kind: str, others: list[list[int]], rename: bool
) -> None:
    statuses, said, samples = trained_on(tmp_path, kind, others, rename)
    assert statuses == [2, 2], said
    assert samples == 0
    lines = [line for line in said.splitlines() if line.startswith("paceline: ")]
    assert len(lines) == 2, said  # each host says it
    for line in lines:
        assert re.search(r"w[01] has (other data than the others|a data set of \d+ samples, the others one of)", line)


def test_hosts_with_the_same_shards_train(tmp_path: Path) -> None:
    statuses, said, samples = trained_on(tmp_path, "function", SHARDS)
    assert statuses == [0, 0], said
    assert samples == 45
