"""Hosts that are network namespaces on this machine, joined by links of a given bandwidth, and a job that trains on
them. Needs root and iproute2."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path


class Hosts:
    """Network namespaces on a bridge; each lives as long as a process in it."""

    def __init__(self, count: int, mbit: int) -> None:
        self.count = count
        self.keepers = [subprocess.Popen(["unshare", "--net", "sleep", "infinity"]) for _ in range(count + 1)]
        time.sleep(0.5)
        self.at(count, "ip link add bridge type bridge && ip link set bridge up")
        for host in range(count):
            keeper = self.keepers[host].pid
            self.at(
                count,
                f"ip link add port{host} type veth peer name eth0 netns {keeper} &&"
                f"ip link set port{host} master bridge up",
            )
            self.at(
                host,
                f"ip link set lo up && ip address add {address(host)}/24 dev eth0 && ip link set eth0 up &&"
                "tc qdisc add dev eth0 root handle 1: htb default 1 &&"
                f"tc class add dev eth0 parent 1: classid 1:1 htb rate {mbit}mbit burst 15k quantum 1514 &&"
                f"tc class add dev eth0 parent 1: classid 1:2 htb rate {mbit}mbit burst 15k quantum 1514",
            )
            self.pass_acknowledgements(host, "eth0", mbit)

    def pass_acknowledgements(self, host: int, interface: str, mbit: int) -> None:
        """Acknowledgements do not wait behind data; on Linux hosts fq_codel ensures that."""
        small = "match u16 0 0xff80 at 2"  # an IP packet of less than 128 bytes
        self.at(
            host,
            f"tc class add dev {interface} parent 1: classid 1:3 htb rate {mbit}mbit burst 15k quantum 1514 &&"
            f"tc filter add dev {interface} parent 1: protocol ip prio 2 u32 {small} flowid 1:3",
        )

    def shape_arrivals(self, mbit: int) -> None:
        """Makes arrivals at a host share one link too. Without this, only its departures do."""
        for host in range(self.count):
            self.at(
                self.count,
                f"tc qdisc add dev port{host} root handle 1: htb default 1 &&"
                f"tc class add dev port{host} parent 1: classid 1:1 htb rate {mbit}mbit burst 15k quantum 1514",
            )
            self.pass_acknowledgements(self.count, f"port{host}", mbit)

    def inside(self, host: int) -> list[str]:
        return ["nsenter", "-t", str(self.keepers[host].pid), "-n"]

    def at(self, host: int, line: str) -> None:
        subprocess.run([*self.inside(host), "sh", "-c", line], check=True)

    def set_link(self, one: int, other: int, mbit: int) -> None:
        """Limits the traffic between the two hosts, in a class of its own."""
        for here, there in ((one, other), (other, one)):
            self.at(
                here,
                f"tc class change dev eth0 parent 1: classid 1:2 htb rate {mbit}mbit burst 15k quantum 1514 &&"
                "tc filter replace dev eth0 parent 1: protocol ip prio 1 handle 800::1"
                f" u32 match ip dst {address(there)} flowid 1:2",
            )

    def close(self) -> None:
        for keeper in self.keepers:
            keeper.kill()
            keeper.wait()


def address(host: int) -> str:
    return f"10.78.0.{host + 1}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def make_certs(program: Path, folder: Path, job: str) -> Path:
    subprocess.run([program, "certs", folder / "certs", "--job", job], check=True, stdout=subprocess.DEVNULL)
    return folder / "certs" / job


def so_far(runs: Path) -> tuple[float, int]:
    """Seconds since the run began, and samples: of the newest commit."""
    for journal in runs.glob("*/journal.sqlite"):
        try:
            with sqlite3.connect(f"file:{journal}?mode=ro", uri=True) as database:
                newest = "SELECT at_ns, committed_before + samples FROM commits ORDER BY version DESC LIMIT 1"
                at_ns, samples = database.execute(newest).fetchone() or (0, 0)
                return at_ns / 1e9, samples
        except sqlite3.Error:
            return 0.0, 0
    return 0.0, 0


class NotStartedError(Exception):
    """Why a training did not begin."""


@contextlib.contextmanager
def nodes(hosts: Hosts, program: Path, job: Path, port: int, sets: list[str]) -> Iterator[list[subprocess.Popen]]:
    """A node of the job on every host, the first one's log in log0 beside the job; they are gone afterwards."""
    started: list[subprocess.Popen] = []
    try:
        for rank in range(hosts.count):
            place = ["--rank", str(rank), "--hosts", str(hosts.count), "--coordinator", f"{address(0)}:{port}"]
            for one in sets:
                place += ["--set", one]
            with (job.parent / f"log{rank}").open("w") as log:
                started.append(
                    subprocess.Popen(
                        [*hosts.inside(rank), program, "node", job, *place],
                        stdout=log,
                        stderr=log,
                        env=dict(os.environ, OMP_NUM_THREADS="1"),
                        start_new_session=True,
                    )
                )
        yield started
    finally:
        for node in started:
            if node.poll() is None:
                os.killpg(node.pid, signal.SIGKILL)
            node.wait()


def wait_for_first_commit(node: subprocess.Popen, runs: Path, log: Path, patience_s: float = 60) -> float:
    """When the run began, on the monotonic clock. Raises NotStartedError."""
    patience = time.monotonic() + patience_s
    while so_far(runs)[1] == 0:
        if node.poll() is not None or time.monotonic() > patience:
            raise NotStartedError((log.read_text().strip().splitlines() or ["no word"])[-1])
        time.sleep(0.05)
    return time.monotonic() - so_far(runs)[0]
