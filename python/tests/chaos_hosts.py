"""The hosts of a job on this machine, whose processes a test kills, and what the job's journal says meanwhile."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from live_job import PACELINE, environment

HOSTS = 2
KEPT = "SELECT epoch, begin, end, share FROM members JOIN kept_commits USING (seq) WHERE begin IS NOT NULL"


class ChaosHosts:
    """A host is a `paceline node` with all that it started. The job file and the certificates are in the folder."""

    def __init__(self, folder: Path, own_disks: bool, own_variables: Sequence[Mapping[str, str]] = ({}, {})) -> None:
        """own_variables: for each host, further variables of its environment."""
        self._folder = folder
        self._own_variables = own_variables
        self._own_disks = own_disks
        self._words: list[list[str]] = []
        self._nodes: list[subprocess.Popen[bytes]] = []
        self._by_hand: list[subprocess.Popen[bytes]] = []
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.port = int(listener.getsockname()[1])

    @property
    def run(self) -> Path:
        """Its folder. If the hosts share a disk, one of the second host's own is beside it."""
        [journal] = self._folder.glob("runs/*/journal.sqlite")
        return journal.parent

    def start(self, *more: str, resume: bool = False) -> None:
        self._words = []
        for rank in range(HOSTS):
            job = ["--resume", str(self.run)] if resume and rank == 0 else ["job.toml"]
            words = [PACELINE, "node", *job, "--rank", str(rank), "--hosts", str(HOSTS)]
            words += ["--coordinator", f"127.0.0.1:{self.port}", *more]
            words += ["--set", f"cluster.shared_folder={str(not self._own_disks).lower()}"]
            if self._own_disks and rank > 0:
                words += ["--set", f"runs_dir=disk{rank}"]
            self._words.append(words)
        self._nodes = [self._started(words, rank) for rank, words in enumerate(self._words)]

    def start_again(self, rank: int) -> None:
        self._nodes[rank] = self._started(self._words[rank], rank)

    def join_by_hand(self, name: str, rank: int) -> None:
        words = [PACELINE, "worker", "--name", name, "--coordinator", f"127.0.0.1:{self.port}"]
        words += ["--certs", "certs/chaos", "--address", "127.0.0.1", "--job", str(self.run / "job.toml")]
        self._by_hand.append(self._started(words, rank))

    def workers(self) -> dict[str, int]:
        """The process of each worker."""
        found = self._processes()
        return {words[words.index("--name") + 1]: pid for pid, words, _ in found if words[1:2] == ["worker"]}

    def coordinator(self) -> int:
        [found] = [pid for pid, words, _ in self._processes() if words[1:2] == ["coordinator"]]
        return found

    def readers(self) -> list[int]:
        """Readers alone of all programs lead sessions of their own."""
        programs = [pid for pid, words, _ in self._processes() if words[1:2] and words[1].endswith("train.py")]
        found = []
        for pid in programs:
            with contextlib.suppress(ProcessLookupError):
                found += [pid] if os.getsid(pid) == pid else []
        return found

    def kill_host(self, rank: int) -> None:
        """Readers too, if its workers started them."""
        for pid, _, of_rank in list(self._processes()):
            if of_rank == rank:
                kill(pid)
        self._nodes[rank].wait()

    def kill_all(self, with_readers: bool = True) -> None:
        spared = [] if with_readers else self.readers()
        for pid, _, _ in list(self._processes()):
            if pid not in spared:
                kill(pid)
        for one in (*self._nodes, *self._by_hand):
            one.wait()
        self._by_hand.clear()

    def all_run(self) -> bool:
        return all(node.poll() is None for node in self._nodes)

    def exit_statuses(self, seconds: float) -> list[int]:
        return [one.wait(seconds) for one in (*self._nodes, *self._by_hand)]

    def said(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self._folder.glob("log-*")))

    def _started(self, words: list[str], rank: int) -> subprocess.Popen[bytes]:
        own = self._own_variables[rank]
        marked = {**environment(), **own, "CHAOS_FOLDER": str(self._folder), "CHAOS_RANK": str(rank)}
        with open(self._folder / f"log-{rank}", "a") as log:
            return subprocess.Popen(words, cwd=self._folder, env=marked, stdout=log, stderr=log)

    def _processes(self) -> Iterator[tuple[int, list[str], int]]:
        """The number, the command line and the host of each process of the job. Readers have no parent here."""
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                variables = dict(
                    one.partition("=")[::2] for one in os.fsdecode((process / "environ").read_bytes()).split("\0")
                )
                words = os.fsdecode((process / "cmdline").read_bytes()).split("\0")
                if variables.get("CHAOS_FOLDER") == str(self._folder) and words[0]:
                    yield int(process.name), words, int(variables["CHAOS_RANK"])


def family(pid: int) -> list[int]:
    """The process and all that it started, directly or not."""
    found = [pid]
    for one in found:
        with contextlib.suppress(OSError):
            found += [int(child) for child in Path(f"/proc/{one}/task/{one}/children").read_text().split()]
    return found


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def asked(run: Path, words: str) -> list[Any]:
    """The rows of the journal; none while it is being made."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{run / 'journal.sqlite'}?mode=ro", uri=True)) as journal:
            return journal.execute(words).fetchall()
    except sqlite3.OperationalError:
        return []


def committed(run: Path) -> int:
    """The number of samples in the commits that count."""
    return sum(end - begin for _, begin, end, _ in asked(run, KEPT))


def attempts(run: Path) -> int:
    return max((attempt for [attempt] in asked(run, "SELECT attempt FROM attempts")), default=0)


def live_workers(run: Path) -> set[str]:
    """The names of the workers that joined the newest attempt and have not left it."""
    facts = f"FROM facts WHERE attempt = {attempts(run)} AND kind IN ('joined', 'left') ORDER BY seq"
    live: dict[int, str] = {}
    for replica, name, kind in asked(run, "SELECT replica, name, kind " + facts):
        if kind == "joined":
            live[replica] = name
        else:
            live.pop(replica, None)
    return set(live.values())
