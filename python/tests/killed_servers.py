"""Runs on a card whose servers are killed again and again."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from pathlib import Path

from live_job import PACELINE, environment, run_words

MEMORY = ["--set", "cluster.memory=gpu"]
BACK = "and nothing is lost"


def processes(word: str, run_folder: Path) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().split(b"\0")
                folder = os.readlink(entry / "cwd")
            except OSError:
                continue
            if word.encode() in command[:3] and str(run_folder) in folder:
                found.append(int(entry.name))
    return found


def started(
    folder: Path, devices: int, program: str, policy: str = "bsp", servers: int = 1
) -> subprocess.Popen[bytes]:
    """A run on the card, or on several, that has written its first checkpoint and is not over."""
    checkpoints = ["--set", "checkpoint.every_epochs=0.2"]
    options = [*MEMORY, "--policy", policy, *checkpoints, "--set", f"cluster.servers={servers}"]
    words = run_words(folder, program, devices, options, ["slow"])
    with open(folder / "log", "w") as log:
        run = subprocess.Popen([PACELINE, *words], cwd=folder, env=environment(), stdout=log, stderr=log)
    deadline = time.monotonic() + 120
    while not (folders := list((folder / "runs").glob("*"))) or not list(folders[0].glob("checkpoints/*")):
        assert run.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
        time.sleep(0.05)
    return run


def kill_servers(run: subprocess.Popen[bytes], folder: Path, times: int) -> int:
    """Kills a server, waits until the next one is back, and so on, while the run trains. Returns how many came back."""
    rng, log = random.Random(3), folder / "log"
    for kills in range(times):
        servers = processes("server", folder)
        if not servers or run.poll() is not None:
            return kills
        with contextlib.suppress(ProcessLookupError):
            os.kill(rng.choice(sorted(servers)), signal.SIGKILL)
        deadline = time.monotonic() + 60
        while log.read_text().count(BACK) <= kills:
            if run.poll() is not None:
                return log.read_text().count(BACK)
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.1))
    return times


def said(folder: Path, servers: int = 1) -> str:
    log = (folder / "log").read_text()
    assert "going on from" not in log and "commits lost" not in log, log
    assert log.count("weights and optimizer state are in the memory of") == servers, log
    assert "without evaluations" not in log, log
    return log
