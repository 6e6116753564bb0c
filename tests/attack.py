"""./dev attack: strangers at a run that trains, and what they cost it.

Each attack meets a run of its own, on loopback: four workers, paced, so that a run that is not disturbed makes the
same number of iterations a second whatever else the machine does. A line says what was done, what it cost, and
whether the run held up. The exit status is 1 if one did not.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

PACE_MS = 50
WORKERS = 4
PATIENCE_S = 60
WATCH_S = 4.0
SHORT_CONNECTIONS = 600
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\0\0\0\4\0\0\0\0\0"
TLS_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"  # the first bytes of a handshake that goes no further


def eventually(what: str, done: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not done():
        if time.monotonic() > until:
            raise SystemExit(f"attack: waited {PATIENCE_S} s for {what}")
        time.sleep(0.05)


def resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


@dataclass
class Run:
    folder: Path
    process: subprocess.Popen[str]
    tls: bool

    @property
    def run(self) -> Path:
        [run] = [one for one in (self.folder / "runs").iterdir() if one.is_dir()]
        return run

    def coordinator(self) -> int:
        for pid in map(int, Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()):
            if b"\0coordinator\0" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
        raise SystemExit("attack: the coordinator is gone")

    def address(self) -> tuple[str, int]:
        words = Path(f"/proc/{self.coordinator()}/cmdline").read_text().split("\0")
        host, port = words[words.index("--listen") + 1].rsplit(":", 1)
        return host, int(port)

    def commits(self) -> int:
        with suppress(sqlite3.OperationalError):
            with sqlite3.connect(f"file:{self.run / 'journal.sqlite'}?mode=ro", uri=True) as journal:
                return int(journal.execute("SELECT count(*) FROM commits").fetchone()[0])
        return 0

    def log_bytes(self) -> int:
        return (self.run / "logs" / "coordinator.log").stat().st_size

    def rate(self) -> float:
        """Commits a second from now on."""
        began, before = time.monotonic(), self.commits()
        time.sleep(WATCH_S)
        return (self.commits() - before) / (time.monotonic() - began)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE_S)


@contextmanager
def training(paceline: str, tls: bool) -> Iterator[Run]:
    folder = Path(tempfile.mkdtemp(prefix="paceline-attack-"))
    try:
        (folder / "text.txt").write_text("".join(f"line {i} of {i % 7} says {i * i % 1013}\n" for i in range(4000)))
        network = ""
        if tls:
            for job in ("ours", "other"):
                subprocess.run([paceline, "certs", "certs", "--job", job], cwd=folder, check=True, capture_output=True)
            network = '[network]\ncerts = "certs/ours"\n'
        (folder / "job.toml").write_text(
            'epochs = 1000\nbatch = 8\n[model]\nname = "gpt-byte"\nwidth = 16\nlayers = 1\nheads = 2\ncontext = 16\n'
            '[data]\nsource = "text:text.txt"\ntrain_samples = 1200\ntest_samples = 100\n'
            f'[sync]\npolicy = "asp"\n{network}[[device]]\ncount = {WORKERS}\npace_ms = {PACE_MS}\n'
        )
        process = subprocess.Popen([paceline, "train", "job.toml"], cwd=folder, text=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # fmt: skip
        run = Run(folder, process, tls)
        eventually("the run to train", lambda: (folder / "runs").exists() and run.commits() > 20)
        yield run
    finally:
        with suppress(NameError):
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def connect(run: Run) -> socket.socket:
    made = socket.create_connection(run.address(), timeout=10)
    return made


def hold(run: Run, count: int, words: bytes) -> list[socket.socket]:
    address, held = run.address(), []
    for _ in range(count):
        with suppress(OSError):
            one = socket.socket()
            one.settimeout(5)
            one.connect(address)
            if words:
                one.send(words)
            held.append(one)
    return held


@dataclass
class Found:
    figures: str
    held_up: bool


def strangers(paceline: str, tls: bool, words: bytes, count: int) -> Found:
    with training(paceline, tls) as run:
        coordinator = run.coordinator()
        before, memory = run.rate(), resident_mb(coordinator)
        held = hold(run, count, words)
        during, most, files = run.rate(), resident_mb(coordinator), descriptors(coordinator)
        for one in held:
            one.close()
        if count <= SHORT_CONNECTIONS:
            return Found(f"{len(held)} connections: {files} descriptors", run.stop() == 130 and files < 1100)
        time.sleep(12)  # longer than a handshake may take
        # What is given back serves the next ones: a second time costs nothing.
        held = hold(run, count, words)
        again = resident_mb(coordinator)
        for one in held:
            one.close()
        time.sleep(12)
        left, kept = descriptors(coordinator), resident_mb(coordinator)
        status = run.stop()
        figures = (
            f"{len(held)} connections: {before:.1f} to {during:.1f} commits/s, {most - memory:+.1f} MB, {files} descriptors; "
            f"again: {again - most:+.1f} MB; in the end {kept - memory:+.1f} MB, {left} descriptors, exit status {status}"
        )
        held_up = during > 0.8 * before and most - memory < 80 and kept - memory < 50 and again - most < 20 and left < 60
        return Found(figures, status == 130 and held_up)


def requests(paceline: str, count: int) -> Found:
    """One connection, and many requests of 4 MB that never end."""
    headers = bytes.fromhex("838644") + b"\x01/" + b"\x41\x01x"  # POST, http, and little else
    with training(paceline, False) as run:
        coordinator = run.coordinator()
        before, memory = run.rate(), resident_mb(coordinator)
        sent, connections = 0, 0
        while sent < count:
            one = connect(run)
            connections += 1
            with suppress(OSError):
                one.send(PREFACE + SETTINGS)
                for stream in range(1, 2 * count, 2):
                    one.send(len(headers).to_bytes(3, "big") + b"\1\4" + stream.to_bytes(4, "big") + headers)
                    one.send((16384).to_bytes(3, "big") + b"\0\0" + stream.to_bytes(4, "big") + bytes(16384))
                    sent += 1
            one.close()
            if connections > count:
                break
            sent += 1
        during, most = run.rate(), resident_mb(coordinator)
        status = run.stop()
        if count <= SHORT_CONNECTIONS:
            return Found(f"{sent} requests: {most - memory:+.1f} MB", status == 130 and most - memory < 50)
        figures = f"{sent} requests: {before:.1f} to {during:.1f} commits/s, {most - memory:+.1f} MB, exit status {status}"
        return Found(figures, status == 130 and during > 0.8 * before and most - memory < 50)


def refused_calls(paceline: str) -> Found:
    """Wrong openings for ten seconds, as fast as one process can."""
    with training(paceline, False) as run:
        log, tries, until = run.log_bytes(), 0, time.monotonic() + 10
        while time.monotonic() < until:
            with suppress(OSError), connect(run) as one:
                one.send(b"paceline" + bytes(32))
                one.recv(72, socket.MSG_WAITALL)
                one.send(bytes(32))
                tries += 1
        grown = run.log_bytes() - log
        status = run.stop()
        return Found(f"{tries} wrong proofs in 10 s: {grown} bytes of log, exit status {status}",
                     status == 130 and grown < 20_000)  # fmt: skip


def impostor(paceline: str) -> Found:
    """The coordinator is killed, and somebody else wants its port at that moment."""
    with training(paceline, False) as run:
        address, got = run.address(), 0
        os.kill(run.coordinator(), signal.SIGKILL)
        until = time.monotonic() + 3
        while time.monotonic() < until:
            with socket.socket() as one, suppress(OSError):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                one.bind(address)
                one.listen()
                got += 1
        before = run.commits()
        eventually("the run to go on", lambda: run.commits() > before + 20)
        status = run.stop()
        return Found(f"the port was had {got} times in 3 s, exit status {status}", status == 130 and got == 0)


def of_another_job(paceline: str) -> Found:
    with training(paceline, True) as run:
        host, port = run.address()
        token = (run.folder / "certs" / "ours" / "token").read_text()
        (run.folder / "certs" / "other" / "token").write_text(token)
        ended = subprocess.run([paceline, "worker", "--name", "w0", "--coordinator", f"{host}:{port}", "--certs",
                                "certs/other"], cwd=run.folder, capture_output=True, text=True, timeout=60)  # fmt: skip
        status = run.stop()
        line = re.sub(r"127\S+", "…", ended.stderr.strip())
        return Found(f"“{line}”, exit status {ended.returncode} and {status}", ended.returncode == 2 and status == 130)


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev attack", description=__doc__.splitlines()[0].split(": ")[1])
    parser.add_argument("--connections", type=int, default=10_000, help="of strangers at once (10000)")
    parser.add_argument("--short", action="store_true", help="a few of each kind, in half a minute, and nothing measured")
    parser.add_argument("--only", default="", help="attacks whose names have this in them")
    arguments = parser.parse_args()
    paceline = os.environ["PACELINE"]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    count = min(SHORT_CONNECTIONS if arguments.short else arguments.connections, most - 100)
    left_out = ("half an opening", "silent connections", "wrong proofs") if arguments.short else ()
    attacks: dict[str, Callable[[], Found]] = {
        "silent connections": lambda: strangers(paceline, False, b"", count),
        "silent connections, TLS": lambda: strangers(paceline, True, b"", count),
        "half an opening": lambda: strangers(paceline, False, b"paceli", count),
        "handshakes that stop, TLS": lambda: strangers(paceline, True, TLS_HELLO, count),
        "requests without end": lambda: requests(paceline, count),
        "wrong proofs": lambda: refused_calls(paceline),
        "an impostor at the port": lambda: impostor(paceline),
        "a certificate of another job": lambda: of_another_job(paceline),
    }
    failed = False
    for name, attack in attacks.items():
        if arguments.only not in name or name in left_out:
            continue
        found = attack()
        failed = failed or not found.held_up
        print(f"{'held up' if found.held_up else 'FAILED '}  {name}: {found.figures}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
