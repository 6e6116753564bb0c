"""Two hosts whose shards are not the same: the job ends in one line that says so, and nothing else was trained."""

from __future__ import annotations

import re
import shutil
import sys
import time
from pathlib import Path

import pytest
import stream_kinds
from chaos_hosts import ChaosHosts, attempts, committed, kill
from live_job import needs_paceline, paceline

pytestmark = needs_paceline

PROGRAM = """
import os, sys, time
import torch
from torch import nn
import paceline
import stream_kinds
from paceline.streams import Shards, Stream

kind, how = sys.argv[1:]
folder = f"data{os.environ['CHAOS_RANK']}"
source = stream_kinds.source(kind, folder)
if how in ("by name", "in turn"):
    source = Shards(["000", "001", "002"], lambda name: stream_kinds.unzipped(f"{folder}/{name}.gz"))
stream = Stream(source, shuffle=20, interleave=3, stride=4, records=45 if how == "records" else None,
                map=lambda record: torch.tensor([float(stream_kinds.number(kind, record))]))
model = nn.Linear(1, 1)
job = paceline.join(model, stream, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), batch_size=4)
steps = 0
for batch in job:
    steps += 1
    # The second worker has read next to nothing when the first one has come to the end of the first shard.
    while how == "in turn" and steps == (12 if job.name == "w0" else 1) and not os.path.exists("go on"):
        time.sleep(0.02)
    model(batch).mean().backward()
    job.step(0.0)
"""

JOB = """
name = "hosts"
[network]
listen = "127.0.0.1:{port}"
certs = "certs/hosts"
[sync]
policy = "{policy}"
[evaluate]
enabled = false
[program]
run = "train.py"
args = ["{kind}", "{how}"]
python = "{python}"
[[device]]
count = 2
"""

SHARDS = [list(range(10)), list(range(10, 30)), list(range(30, 45))]
FEWER = [SHARDS[0], SHARDS[1][:-1], SHARDS[2]]
LONG = [list(range(10)), list(range(10, 70)), list(range(70, 130))]
MOVED = [SHARDS[0], SHARDS[1][:-1], [29, *SHARDS[2]]]  # one record is in another shard


def started(
    folder: Path, kind: str, ones: list[list[int]], others: list[list[int]], how: str, policy: str = "bsp"
) -> ChaosHosts:
    """how: "by name": the source is not told of files. "records": the stream is not asked for its length."""
    hosts = ChaosHosts(folder, own_disks=True)
    stream_kinds.write(kind, folder / "data0", ones)
    stream_kinds.write(kind, folder / "data1", others)
    shutil.copy(stream_kinds.__file__, folder)
    (folder / "train.py").write_text(PROGRAM)
    words = {"port": hosts.port, "kind": kind, "how": how, "python": sys.executable, "policy": policy}
    (folder / "job.toml").write_text(JOB.format(**words))
    assert paceline(folder, "certs", "certs", "--job", "hosts").returncode == 0
    return hosts


def trained_on(
    folder: Path, kind: str, others: list[list[int]], rename: bool = False, how: str = ""
) -> tuple[list[int], str, int]:
    """The exit statuses, what was said, and the number of samples that were committed."""
    hosts = started(folder, kind, SHARDS, others, how)
    if rename:
        last = sorted((folder / "data1").iterdir())[-1]
        last.rename(last.with_stem("other"))
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
        assert "; copy one host's files to all hosts" in line


@pytest.mark.parametrize(
    ("kind", "how", "others"),
    [
        ("function", "by name", FEWER),
        ("function", "by name", MOVED),
        ("hugging face", "", MOVED),
        ("lines", "records", MOVED),
    ],
    ids=["shards by name", "as many records", "hugging face", "length not asked for"],
)
def test_a_shard_that_is_found_shorter_on_one_host_ends_the_run_in_one_line(
    tmp_path: Path, kind: str, how: str, others: list[list[int]]
) -> None:
    if library := stream_kinds.LIBRARIES.get(kind):
        pytest.importorskip(library)
    statuses, said, samples = trained_on(tmp_path, kind, others, how=how)
    assert statuses == [2, 2], said
    assert samples < 45
    lines = [line for line in said.splitlines() if line.startswith("paceline: ")]
    assert len(lines) == 2, said
    for line in lines:
        assert re.search(
            r"w[01] found \d+ records in the shard '.+' on host ([01]), and it has \d+ on host [01]; if that is the "
            r"right shard, copy it to host \1 and resume the run, otherwise begin a new run",
            line,
        ), said


@pytest.mark.parametrize("how", ["", "by name", "records"])
def test_hosts_with_the_same_shards_train(tmp_path: Path, how: str) -> None:
    statuses, said, samples = trained_on(tmp_path, "function", SHARDS, how=how)
    assert statuses == [0, 0], said
    assert samples == 45


def test_lengths_that_were_learnt_before_the_death_of_the_coordinator_are_compared(tmp_path: Path) -> None:
    hosts = started(tmp_path, "function", LONG, [LONG[0][:-1], *LONG[1:]], "in turn", "asp")
    hosts.start()
    try:
        deadline = time.monotonic() + 120
        while not list(tmp_path.glob("runs/*/journal.sqlite")) or committed(hosts.run) < 44:
            assert hosts.all_run() and time.monotonic() < deadline, hosts.said()
            time.sleep(0.05)
        kill(hosts.coordinator())
        (tmp_path / "go on").touch()
        statuses = hosts.exit_statuses(240)
        said = hosts.said()
        assert statuses == [2, 2], said
        assert attempts(hosts.run) > 1, said
        found = r"w0 found 10 records in the shard '000' on host 0, and it has 9 on host 1"
        other = r"w1 found 9 records in the shard '000' on host 1, and it has 10 on host 0"
        assert len(re.findall(f"{found}|{other}", said)) == 2, said  # both hosts say so
    finally:
        hosts.kill_all()
