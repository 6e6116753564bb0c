"""Who trains in `./dev bench ddp`, and how each is started and what it says of itself is read."""

from __future__ import annotations

import functools
import json
import os
import socket
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import torch

from places import HERE, environment, executable
from task import EVALUATIONS, Settings, accuracy, data, network

DEBIANS = "/usr/bin/python3"
PATIENCE_S = 600


@dataclass
class Outcome:
    """The held-out accuracy over the seconds since the first iteration began, and how long the training took."""

    curve: list[tuple[float, float]]
    seconds: float

    def accuracy(self) -> float:
        return self.curve[-1][1]

    def seconds_to(self, target: float) -> float | None:
        """Between two measurements the accuracy is taken to be on a line."""
        before = (0.0, 0.1)
        for at in self.curve:
            if at[1] >= target:
                part = (target - before[1]) / (at[1] - before[1])
                return before[0] + part * (at[0] - before[0])
            before = at
        return None


@dataclass(frozen=True)
class Ddp:
    """Ranks as torchrun starts them; torchrun itself would be one more process to pay for."""

    title: str
    how: str = "plain"
    python: str = sys.executable

    def train(self, told: Settings, speeds: list[float]) -> Outcome:
        ranks = [self._start(rank, told, speeds, port) for port in [_free_port()] for rank in range(len(speeds))]
        try:
            codes = [rank.wait(PATIENCE_S) for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
        if any(codes):
            raise SystemExit(f"bench: {self.title} failed:\n{(told.folder / 'log').read_text()}")
        said = json.loads((told.folder / "said.json").read_text())
        return Outcome([(at, accuracy) for at, accuracy in said["curve"]], said["seconds"])

    def _start(self, rank: int, told: Settings, speeds: list[float], port: int) -> subprocess.Popen[bytes]:
        place = {
            "RANK": str(rank),
            "WORLD_SIZE": str(len(speeds)),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "GLOO_SOCKET_IFNAME": "lo",
        }
        command = [self.python, str(HERE / "ddp_rank.py"), *told.words(), self.how, ",".join(map(str, speeds))]
        with open(told.folder / "log", "a") as log:
            return subprocess.Popen(command, env={**environment(), **place}, stdout=log, stderr=log)


@dataclass(frozen=True)
class Paceline:
    """`paceline run` with some keys of a job file."""

    title: str
    policy: str = "bsp"
    keys: tuple[str, ...] = ()

    def train(self, told: Settings, speeds: list[float]) -> Outcome:
        sets = [f"seed={told.seed}", "schedule.shape=cosine", f"evaluate.every_epochs={told.epochs / EVALUATIONS}"]
        command = [executable(), "run", "--python", sys.executable, "--devices", str(len(speeds))]
        command += ["--policy", self.policy, *(word for one in (*sets, *self.keys) for word in ("--set", one))]
        command += [str(HERE / "ddp_member.py"), "--", *told.words()]
        with open(told.folder / "log", "w") as log:
            code = subprocess.run(
                command, cwd=told.folder, env=environment(), stdout=log, stderr=log, timeout=PATIENCE_S
            ).returncode
        if code != 0:
            raise SystemExit(f"bench: {self.title} failed:\n{(told.folder / 'log').read_text()}")
        return _journalled(told)


def _journalled(told: Settings) -> Outcome:
    [journal] = told.folder.glob("runs/*/journal.sqlite")
    with sqlite3.connect(journal) as tables:
        kept = tables.execute("SELECT at_ns / 1e9, metrics FROM evaluations ORDER BY version").fetchall()
        [(seconds,)] = tables.execute("SELECT max(at_ns) / 1e9 FROM commits").fetchall()
    _, held_out = data(told.data)
    scratch = network(told.seed)
    curve = []
    for at, metrics in kept:
        scratch.load_state_dict(torch.load(told.folder / f"kept-{int(json.loads(metrics)['kept'])}.pt"))
        curve.append((at, accuracy(scratch, held_out)))
    return Outcome(curve, seconds)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@functools.cache
def version_of(python: str) -> str:
    """The version of its PyTorch; empty if it has none."""
    if not os.path.exists(python):
        return ""
    asked = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
    return asked.stdout.strip()
