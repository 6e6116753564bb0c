"""Streams in jobs of two hosts, whose workers, readers and hosts are killed, and that are resumed.

A seed draws after how many committed samples each strike comes. Programs train only the places below a gate that the
test opens. So each strike finds the run training, however slow this machine is.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import stream_kinds
import torch
from chaos_hosts import HOSTS, KEPT, ChaosHosts, asked, attempts, committed, family, kill, live_workers
from live_job import exported, needs_paceline, paceline, replay
from stream_files import library

from paceline.streams.stream import UNKNOWN_EPOCH

pytestmark = needs_paceline

# A record has three weights. Each commit of it moves them by s, s·t and s·t², where s is the share of its batch in the
# commit and t a number that the step draws: a power of two, so nothing is rounded.
PROGRAM = """
import json, os, sys, time
import torch
from torch import nn
import paceline
import stream_kinds
from paceline.streams import Stream

settings = json.loads(sys.argv[1])
RECORDS, KIND = settings["records"], settings["kind"]

def number(record):
    return stream_kinds.number(KIND, record)

class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3, RECORDS))

stream = Stream(stream_kinds.source(KIND, "data"), keep=lambda record: number(record) % 3 != 0, map=number,
                **settings["stream"])

def wait_for_gate(place):
    while place >= int(open("gate").read()):
        time.sleep(0.01)

# Its decorator imports torch.compile, which takes longer than all else at the start of a worker.
torch.optim.Optimizer.add_param_group = torch.optim.Optimizer.add_param_group.__wrapped__
model = Counts()
job = paceline.join(model, stream, optimizer=torch.optim.SGD(model.parameters(), lr=1.0), batch_size=4,
                    epochs=settings["passes"], num_workers=settings["loaders"])
for numbers in job:
    wait_for_gate(job.epoch * stream.epoch_records + job.samples[-1])
    time.sleep(0.05 * os.urandom(1)[0] / 255)
    t = 2.0 ** (os.urandom(1)[0] % 41)
    model.weight.grad = torch.zeros(3, RECORDS)
    model.weight.grad[:, numbers] = -torch.tensor([[1.0], [t], [t * t]])
    job.step(0.0)
"""

JOB = """
name = "chaos"
[network]
listen = "127.0.0.1:{port}"
certs = "certs/chaos"
[sync]
policy = "{policy}"
scale = "update"
[checkpoint]
every_epochs = {checkpoint_every}
[evaluate]
enabled = false
[program]
run = "train.py"
args = [{settings}]
python = "{python}"
[[device]]
count = 3
"""

SIZES = [13, 40, 1, 0, 27, 64, 5, 33, 9, 18] * 4 + [3]
RECORDS = sum(SIZES)
STREAM = {"shuffle": 50, "interleave": 3, "stride": 4}
CHECKPOINT_RECORDS = 40
STRIKES = 9
BY_READERS = (*stream_kinds.UNSIZED, "mixture")
# These run if PACELINE_CHAOS_KINDS is set.
MORE = [
    ("asp", "mixture"),
    ("ssp:3", "parquet"),
    ("asp", "tar"),
    ("bsp", "webdataset"),
    ("bsp", "tokens"),
    ("asp", "hugging face"),
]
SEED = int(os.environ.get("PACELINE_CHAOS_SEED", "1"))
WAIT_S = 240


def shards() -> list[list[int]]:
    numbers = iter(range(RECORDS))
    return [[next(numbers) for _ in range(size)] for size in SIZES]


class Chaos:
    def __init__(self, folder: Path, policy: str, kind: str, own_disks: bool, passes: int) -> None:
        self._folder = folder
        self._draw = random.Random(SEED)
        self._strikes = 0
        self.hosts = ChaosHosts(folder, own_disks)
        self.device_counts: list[int] = []
        stream_kinds.write(kind, folder / "data", shards())
        shutil.copy(stream_kinds.__file__, folder)
        self.order = stream_kinds.whole_order(kind, str(folder / "data"), passes, STREAM)
        self.epoch_records = UNKNOWN_EPOCH if kind in stream_kinds.UNSIZED else len(self.order) // passes
        settings = {"records": RECORDS, "kind": kind, "passes": passes, "stream": STREAM}
        said = {
            "port": self.hosts.port,
            "policy": policy,
            "python": sys.executable,
            "settings": json.dumps(json.dumps({**settings, "loaders": int(kind in BY_READERS)})),
            "checkpoint_every": CHECKPOINT_RECORDS / self.epoch_records,
        }
        (folder / "train.py").write_text(PROGRAM)
        (folder / "job.toml").write_text(JOB.format(**said))
        assert paceline(folder, "certs", "certs", "--job", "chaos").returncode == 0

    @property
    def run(self) -> Path:
        return self.hosts.run

    def begin(self) -> None:
        self._open_gate(0)
        self.hosts.start()
        self._wait_until(lambda: bool(list(self._folder.glob("runs/*/journal.sqlite"))), "there is no run")
        self._wait_for_devices(3)

    def kill_worker(self, left: int) -> str:
        """The worker, its program or a loader process of it. Returns the worker's name."""
        self._reach_next_strike()
        workers = self.hosts.workers()
        name = self._draw.choice(sorted(workers.keys() & live_workers(self.run)))
        kill(self._draw.choice(family(workers[name])))
        self._wait_for_devices(left)
        return name

    def join(self, name: str, devices: int) -> None:
        self._reach_next_strike()
        self.hosts.join_by_hand(name, self._draw.randrange(HOSTS))
        self._wait_for_devices(devices)

    def kill_readers(self) -> int:
        self._reach_next_strike()
        readers = self.hosts.readers()
        for pid in readers:
            kill(pid)
        return len(readers)

    def kill_host(self, devices: int) -> None:
        """The host comes back at once. In the next attempt all workers are here again."""
        self._reach_next_strike()
        before, rank = attempts(self.run), self._draw.randrange(HOSTS)
        self.hosts.kill_host(rank)
        self.hosts.start_again(rank)
        self._wait_until(lambda: attempts(self.run) > before, f"host {rank} was killed, and there is no new attempt")
        self._wait_for_devices(devices)

    def resume(self, devices: int, with_readers: bool) -> None:
        self._reach_next_strike()
        before = attempts(self.run)
        self.hosts.kill_all(with_readers)
        self.hosts.start("--set", f"device=[{{count={devices}}}]", resume=True)
        self._wait_until(lambda: attempts(self.run) > before, "the run does not go on")
        self._wait_for_devices(devices)

    def end(self) -> None:
        assert self._strikes == STRIKES
        self._open_gate(len(self.order) * UNKNOWN_EPOCH)
        assert set(self.hosts.exit_statuses(WAIT_S)) == {0}, self.hosts.said()

    def _reach_next_strike(self) -> None:
        share = len(self.order) / (STRIKES + 1)
        at = int((self._strikes + self._draw.uniform(0.2, 0.8)) * share)
        self._strikes += 1
        self._open_gate(at + int(0.7 * share))
        self._wait_until(lambda: committed(self.run) >= at, f"sample {at} was not committed")

    def _open_gate(self, place: int) -> None:
        (self._folder / "next-gate").write_text(str(place))
        os.replace(self._folder / "next-gate", self._folder / "gate")

    def _wait_for_devices(self, count: int) -> None:
        self._wait_until(lambda: len(live_workers(self.run)) == count, f"there are not {count} devices")
        self.device_counts.append(count)

    def _wait_until(self, true: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + WAIT_S
        while not true():
            assert self.hosts.all_run() and time.monotonic() < deadline, f"{otherwise}\n{self.hosts.said()}"
            time.sleep(0.01)


def places_by_members(run: Path, epoch_records: int) -> list[tuple[int, float]]:
    """All places that were committed, counted over all epochs, and the share of each one's batch."""
    members = [(epoch * epoch_records, begin, end, share) for epoch, begin, end, share in asked(run, KEPT)]
    return sorted((first + place, share) for first, begin, end, share in members for place in range(begin, end))


def weights_by_members(order: list[int], places: list[tuple[int, float]]) -> torch.Tensor:
    """The first weight of each record, by the members of commits and by the order of the stream."""
    weights = torch.zeros(RECORDS, dtype=torch.float64)
    for place, share in places:
        weights[order[place]] += share * (order[place] % 3 != 0)
    return weights


@pytest.mark.parametrize(
    ("policy", "kind", "own_disks", "passes"),
    [
        ("asp", "function", False, 2),
        ("bsp", "function", True, 1),
        ("ssp:3", "lines", True, 2),
        ("bsp", "mixture", True, 1),
        *((policy, kind, True, 1) for policy, kind in MORE if os.environ.get("PACELINE_CHAOS_KINDS")),
    ],
    ids=lambda value: {"function": "unknown length", "lines": "known length"}.get(value, str(value)),
)
def test_each_record_counts_once_whatever_dies(
    tmp_path: Path, policy: str, kind: str, own_disks: bool, passes: int
) -> None:
    if kind in stream_kinds.LIBRARIES:
        library(stream_kinds.LIBRARIES[kind])
    chaos = Chaos(tmp_path, policy, kind, own_disks, passes)
    readers = []
    try:
        chaos.begin()
        chaos.kill_worker(2)
        chaos.kill_host(3)
        lost = chaos.kill_worker(2)
        readers.append(chaos.kill_readers())
        chaos.join(lost, 3)
        chaos.resume(2, with_readers=False)
        readers.append(chaos.kill_readers())
        chaos.resume(4, with_readers=True)
        chaos.kill_worker(3)
        chaos.end()
    finally:
        chaos.hosts.kill_all()
    assert chaos.device_counts == [3, 2, 3, 2, 3, 2, 4, 3]
    assert [number > 0 for number in readers] == [kind in BY_READERS] * 2

    # The run's own records.
    replay(tmp_path, chaos.run)
    places = places_by_members(chaos.run, chaos.epoch_records)
    assert [place for place, _ in places] == list(range(len(chaos.order)))
    summary = json.loads((chaos.run / "summary.json").read_text())["summary"]
    assert summary["finished"] and summary["samples"] == summary["total_samples"] == len(chaos.order)

    # The weights.
    weights = exported(tmp_path, chaos.run)["weight"].double()
    kept = torch.arange(RECORDS) % 3 != 0
    assert not weights[:, ~kept].any()
    assert weights[:, kept].all()
    times = torch.bincount(torch.tensor(chaos.order), minlength=RECORDS)
    if policy == "bsp":  # the share of a commit is not known here, so one commit with one t is
        once = times == 1  # a mixture gives some records again
        assert torch.equal(weights[0, once] * weights[2, once], weights[1, once] ** 2)
    else:
        assert torch.equal(weights[0], times * kept.double())
    torch.testing.assert_close(weights[0], weights_by_members(chaos.order, places), atol=1e-6, rtol=0)
