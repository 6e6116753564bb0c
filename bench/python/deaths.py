"""./dev bench deaths: how long a run stands still when its server is killed, and what it loses.

A program trains on two devices under ASP, and its server is killed again and again.
An outage is a gap between two commits of the journal; the longest gaps, as many as there were kills, are taken for
the outages. Weights and optimizer state lie in the host's memory, and then in a card's: the GPU's if PyTorch finds
one, else the stand-in driver's.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from places import ROOT, environment, executable
from statistics_of import machine, table

PROGRAM = """
import sys
import torch
import torch.nn.functional as F
import paceline

torch.manual_seed(0)
width = int(sys.argv[1])
net = torch.nn.Sequential(torch.nn.Linear(16, width), torch.nn.Tanh(), torch.nn.Linear(width, 1000))
data = torch.utils.data.TensorDataset(torch.randn(4096, 16), torch.randint(1000, (4096,)))
job = paceline.join(net, data, optimizer=torch.optim.AdamW(net.parameters(), lr=1e-4), batch_size=8, epochs=10**6)
for x, y in job:
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    job.step(loss)
"""
BACK = "and nothing is lost"
STAND_IN = ROOT / "build/release/libpaceline_stand_in_driver.so"


def on_card() -> dict[str, str]:
    if torch.cuda.is_available():
        return {"PACELINE_DEVICE": "cuda"}
    return {"PACELINE_DEVICE": "stand-in", "PACELINE_CUDA_DRIVER": str(STAND_IN)}


def server_of(folder: Path) -> int | None:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                where = os.readlink(entry / "cwd")
            except OSError:
                continue
            if b"server" in words[:3] and str(folder) in where:
                return int(entry.name)
    return None


def wait_until(true: object, run: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    while not true():  # type: ignore[operator]
        if run.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"bench: the run does not go on:\n{log.read_text()[-3000:]}")
        time.sleep(0.005)


def asked(folder: Path, question: str) -> list[int]:
    """The answer of the run's journal, as far as it is written."""
    for journal in folder.glob("runs/*/journal.sqlite"):
        with contextlib.suppress(sqlite3.OperationalError), sqlite3.connect(journal) as opened:
            return [number for (number,) in opened.execute(question)]
    return []


def commits(folder: Path) -> int:
    return sum(asked(folder, "SELECT COUNT(*) FROM commits"))


def gaps_of(times: list[int]) -> list[float]:
    """Seconds between one commit and the next."""
    return [(after - before) / 1e9 for before, after in zip(times, times[1:], strict=False)]


def kill_servers(run: subprocess.Popen[bytes], folder: Path, kills: int) -> None:
    log = folder / "log"
    wait_until(lambda: commits(folder) > 20, run, log)
    for kill in range(kills):
        wait_until(lambda: server_of(folder), run, log)
        os.kill(server_of(folder) or 0, signal.SIGKILL)
        wait_until(lambda kill=kill: log.read_text().count(BACK) > kill, run, log)
        before = commits(folder)
        wait_until(lambda before=before: commits(folder) > before + 5, run, log)


def measure(where: str, width: int, kills: int) -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.py").write_text(PROGRAM)
        log = folder / "log"
        words = [
            executable(),
            "run",
            "--devices",
            "2",
            "--policy",
            "asp",
            "--set",
            f"cluster.memory={where}",
            "train.py",
        ]
        env = {**environment(), **(on_card() if where == "gpu" else {"PACELINE_DEVICE": "cpu"})}
        env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
        with log.open("w") as out:
            run = subprocess.Popen([*words, str(width)], cwd=folder, env=env, stdout=out, stderr=out)
        try:
            kill_servers(run, folder, kills)
        finally:
            run.send_signal(signal.SIGTERM)
            run.wait()
        text = log.read_text()
        lost = "no commit lost" if "going on from" not in text and "commits lost" not in text else "COMMITS LOST"
        gaps = sorted(gaps_of(asked(folder, "SELECT at_ns FROM commits ORDER BY seq")), reverse=True)
    outages = gaps[:kills]
    parameters = width * 17 + width * 1000 + 1000
    return [
        f"{'the host' if where == 'host' else 'a card'}, {parameters / 1e6:.1f} million",
        str(kills),
        f"{statistics.median(outages):.3f}",
        f"{outages[0]:.3f}",
        f"{1e3 * statistics.median(gaps):.1f}",
        lost,
    ]


def main() -> None:
    words = argparse.ArgumentParser(prog="./dev bench deaths")
    words.add_argument("--kills", type=int, default=200)
    words.add_argument("--widths", type=int, nargs="*", default=[64, 10_000])
    wanted = words.parse_args()
    rows = [measure(where, width, wanted.kills) for width in wanted.widths for where in ("host", "gpu")]
    head = ["memory, parameters", "kills", "outage, median s", "longest s", "without a death, ms", ""]
    print(table(head, rows))
    print(
        f"\n{machine()}; the card is {torch.cuda.get_device_name() if torch.cuda.is_available() else 'the stand-in'}."
    )


if __name__ == "__main__":
    main()
