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
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

PACE_MS = 50
WORKERS = 4
PATIENCE_S = 60
STOP_PATIENCE_S = 240  # with the last evaluation, at the lowest priority
WATCH_S = 4.0
ENDS_S = 30  # a command that has nothing to do
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

    def processes(self, role: str) -> list[int]:
        found = []
        for pid in map(int, Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()):
            with suppress(OSError):
                if f"\0{role}\0".encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
        return found

    def coordinator(self) -> int:
        found = self.processes("coordinator")
        if not found:
            raise SystemExit("attack: the coordinator is gone")
        return found[0]

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

    def goes_on(self) -> None:
        before = self.commits()
        eventually("the run to go on", lambda: self.commits() > before + 20)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(STOP_PATIENCE_S)


def ports_of(pid: int) -> list[int]:
    """The ports on which a process listens."""
    inodes = set()
    with suppress(OSError):
        for one in os.scandir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                inodes.add(os.readlink(one.path).removeprefix("socket:[").removesuffix("]"))
    ports = []
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == "0A" and words[9] in inodes:
            ports.append(int(words[1].split(":")[1], 16))
    return ports


@contextmanager
def training(paceline: str, tls: bool, more: str = "", sections: str = "") -> Iterator[Run]:
    folder = Path(tempfile.mkdtemp(prefix="paceline-attack-"))
    try:
        (folder / "text.txt").write_text("".join(f"line {i} of {i % 7} says {i * i % 1013}\n" for i in range(4000)))
        network = ""
        if tls:
            for job in ("ours", "other"):
                subprocess.run([paceline, "certs", "certs", "--job", job], cwd=folder, check=True, capture_output=True)
            network = '[network]\ncerts = "certs/ours"\n'
        (folder / "job.toml").write_text(
            f'epochs = 1000\nbatch = 8\n{more}[model]\nname = "gpt-byte"\nwidth = 16\nlayers = 1\nheads = 2\ncontext = 16\n'
            '[data]\nsource = "text:text.txt"\ntrain_samples = 1200\ntest_samples = 100\n'
            f'[sync]\npolicy = "asp"\n{network}[[device]]\ncount = {WORKERS}\npace_ms = {PACE_MS}\n{sections}'
        )
        process = subprocess.Popen([paceline, "train", "job.toml"], cwd=folder, text=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # fmt: skip
        run = Run(folder, process, tls)
        eventually("the run to train", lambda: any(folder.glob("runs/*")) and run.commits() > 20)
        yield run
    finally:
        with suppress(NameError):
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def connect(run: Run) -> socket.socket:
    made = socket.create_connection(run.address(), timeout=10)
    return made


@contextmanager
def flooding(ports: Callable[[], list[int]], words: bytes, held: int) -> Iterator[list[int]]:
    """Another host of this machine's loopback opens connections without end, and keeps so many. How often it could."""
    stopped, opened = threading.Event(), [0]

    def flood() -> None:
        kept: list[socket.socket] = []
        while not stopped.is_set():
            for port in ports():
                for _ in range(50):
                    with suppress(OSError):
                        one = socket.socket()
                        one.bind(("127.0.0.2", 0))
                        one.settimeout(1)
                        one.connect(("127.0.0.1", port))
                        one.send(words or b"p")
                        kept.append(one)
                        opened[0] += 1
            while len(kept) > held:
                kept.pop(0).close()
            time.sleep(0.005)

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        yield opened
    finally:
        stopped.set()
        thread.join()


@contextmanager
def stopped_run(paceline: str) -> Iterator[Path]:
    """A run that was stopped, with several checkpoints, in a folder of its own."""
    with training(paceline, False, sections="[checkpoint]\nevery_epochs = 0.2\n") as run:
        eventually("two checkpoints", lambda: len(checkpoints(run.run)) >= 2)
        run.stop()
        yield run.run


def checkpoints(run: Path) -> list[Path]:
    return sorted(one for one in (run / "checkpoints").iterdir() if one.name.isdigit() or one.suffix == "")


def command(*words: str | Path, limit: float = ENDS_S, folder: Path | None = None) -> tuple[int | None, str]:
    """Its exit status, none where it did not end, and what it complained of."""
    try:
        ended = subprocess.run([str(one) for one in words], capture_output=True, text=True, timeout=limit, cwd=folder)
    except subprocess.TimeoutExpired:
        return None, "it did not end"
    return ended.returncode, ended.stderr.strip()


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
        # Later connections use the memory that earlier ones gave back: a second time costs nothing.
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


HEADERS = bytes.fromhex("838644") + b"\x01/" + b"\x41\x01x"  # POST, http, and little else


def request_without_end(one: socket.socket, count: int) -> int:
    """So many requests of 4 MB over one connection; how many could be begun."""
    sent = 0
    with suppress(OSError):
        one.send(PREFACE + SETTINGS)
        for stream in range(1, 2 * count, 2):
            one.send(len(HEADERS).to_bytes(3, "big") + b"\1\4" + stream.to_bytes(4, "big") + HEADERS)
            one.send((16384).to_bytes(3, "big") + b"\0\0" + stream.to_bytes(4, "big") + bytes(16384))
            sent += 1
    return sent


def requests(paceline: str, tls: bool, count: int) -> Found:
    """Connections on which many requests of 4 MB never end. With TLS they show another job's certificate."""
    with training(paceline, tls) as run:
        coordinator = run.coordinator()
        before, memory = run.rate(), resident_mb(coordinator)
        other = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        other.check_hostname = False
        other.verify_mode = ssl.CERT_NONE
        other.set_alpn_protocols(["h2"])
        if tls:
            other.load_cert_chain(run.folder / "certs/other/worker.crt", run.folder / "certs/other/worker.key")
        sent, connections, held = 0, 0, []
        while sent < count and connections < max(count // 10, 50):
            connections += 1
            with suppress(OSError):
                one = connect(run)
                one.settimeout(2)
                if tls:
                    one = other.wrap_socket(one)
                held.append(one)
                sent += 1 + request_without_end(one, count)
        during, most = run.rate(), resident_mb(coordinator)
        for one in held:
            one.close()
        long = count > SHORT_CONNECTIONS
        if long:
            time.sleep(12)
        kept = resident_mb(coordinator)
        status = run.stop()
        figures = (
            f"{sent} requests over {len(held)} connections: {before:.1f} to {during:.1f} commits/s, "
            f"{most - memory:+.1f} MB, in the end {kept - memory:+.1f} MB, exit status {status}"
        )
        held_up = most - memory < 50 and kept - memory < 50 and (not long or during > 0.8 * before)
        return Found(figures, status == 130 and held_up)


def flood_while_it_comes_back(paceline: str) -> Found:
    """Another host makes half handshakes without end, and the coordinator is killed in the middle of it."""
    with training(paceline, True) as run:
        port = run.address()[1]
        with flooding(lambda: [port], TLS_HELLO, 3000) as opened:
            eventually("a flood", lambda: opened[0] > 1000)
            os.kill(run.coordinator(), signal.SIGKILL)
            began = time.monotonic()
            run.goes_on()
            took = time.monotonic() - began
        status = run.stop()
        return Found(f"{opened[0]} connections: the run goes on after {took:.1f} s, exit status {status}", status == 130)


def not_finite(paceline: str) -> Found:
    with training(paceline, False) as run:
        run.stop()
        status, words = command(paceline, "train", "job.toml", "--set", "optimizer.lr=1e6", limit=PATIENCE_S,
                                folder=run.folder)  # fmt: skip
        return Found(f"“{words.splitlines()[-1] if words else ''}”, exit status {status}",
                     status == 2 and "finite" in words)  # fmt: skip


def kills(paceline: str) -> Found:
    """Workers, servers and the coordinator die, one after the other."""
    with training(paceline, False) as run:
        killed = 0
        for role in ("worker", "server", "coordinator", "worker", "evaluator"):
            for pid in run.processes(role)[:1]:
                os.kill(pid, signal.SIGKILL)
                killed += 1
            run.goes_on()
        status = run.stop()
        return Found(f"{killed} processes killed, exit status {status}", status == 130)


def kills_while_it_comes_back(paceline: str) -> Found:
    """A resumed run whose processes die before it trains."""
    with stopped_run(paceline) as folder:
        killed = 0
        process = subprocess.Popen([paceline, "train", "--resume", folder], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)  # fmt: skip
        run = Run(folder.parent.parent, process, False)
        before = run.commits()
        for role in ("server", "evaluator", "worker"):
            eventually(f"a {role}", lambda role=role: bool(run.processes(role)))
            for pid in run.processes(role)[:1]:
                os.kill(pid, signal.SIGKILL)
                killed += 1
        eventually("the run to go on", lambda: run.commits() > before + 20)
        status = run.stop()
        return Found(f"{killed} processes killed, exit status {status}", status == 130)


def flipped_byte(paceline: str) -> Found:
    """One byte of the newest checkpoint is another one."""
    with stopped_run(paceline) as folder:
        newest = max((folder / "checkpoints").rglob("*.safetensors"), key=lambda one: one.stat().st_mtime)
        bytes_ = bytearray(newest.read_bytes())
        bytes_[len(bytes_) // 2] ^= 1
        newest.write_bytes(bytes_)
        log = folder / "logs" / "coordinator.log"
        process = subprocess.Popen([paceline, "train", "--resume", folder], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)  # fmt: skip
        run = Run(folder.parent.parent, process, False)
        before = run.commits()
        eventually("the run to go on", lambda: run.commits() > before + 20 or process.poll() is not None)
        said = [line for line in log.read_text().splitlines() if "set aside" in line or "damaged" in line]
        status = run.stop()
        return Found(f"“{said[-1] if said else ''}”, exit status {status}", status == 130 and bool(said))


def crowded_links(paceline: str) -> Found:
    """Strangers at the links between two hosts, also while one of them makes its links anew."""
    with training(paceline, False, more="", sections="[cluster]\nhosts = 2\n") as run:
        servers = lambda: [port for pid in run.processes("server") for port in ports_of(pid)]  # noqa: E731
        with flooding(servers, b"", 600) as opened:
            eventually("a flood", lambda: opened[0] > 500)
            run.goes_on()
            os.kill(run.processes("server")[-1], signal.SIGKILL)
            run.goes_on()
        status = run.stop()
        return Found(f"{opened[0]} connections and a killed server, exit status {status}", status == 130)


def links_in_a_run(paceline: str) -> Found:
    """A run of somebody else, with symbolic links in it, is resumed."""
    with stopped_run(paceline) as folder:
        told, harmed = [], False
        for name in ("lock", "metrics.jsonl", "journal.sqlite", "logs/w0.log", "token"):
            copy, victim = folder.parent / f"links-{name.replace('/', '-')}", folder.parent.parent / "victim"
            shutil.copytree(folder, copy)
            victim.write_text("mine\n")
            (copy / name).unlink(missing_ok=True)
            (copy / name).symlink_to(victim)
            with suppress(subprocess.TimeoutExpired):
                process = subprocess.Popen([paceline, "train", "--resume", copy], stdout=subprocess.DEVNULL,
                                           stderr=subprocess.PIPE)  # fmt: skip
                process.wait(4)
            process.send_signal(signal.SIGINT)
            told.append(f"{name}: {process.wait(PATIENCE_S)}")
            harmed = harmed or victim.read_text() != "mine\n"
            shutil.rmtree(copy)
        return Found(f"exit statuses {', '.join(told)}; a file elsewhere is {'overwritten' if harmed else 'as it was'}",
                     not harmed)  # fmt: skip


def pipes_in_a_run(paceline: str) -> Found:
    """A run of somebody else, with named pipes in it, is resumed and read."""
    with stopped_run(paceline) as folder:
        copy, ends = folder.parent / "pipes", []
        for name in ("journal.sqlite", "metrics.jsonl", "logs/w0.log", "lock"):
            shutil.copytree(folder, copy)
            (copy / name).unlink(missing_ok=True)
            os.mkfifo(copy / name)
            for verb in (("train", "--resume"), ("report",), ("replay",)):
                if verb[0] != "train" and name != "journal.sqlite":
                    continue
                status, words = command("timeout", "-s", "INT", "20", paceline, *verb, copy)
                ends.append(f"{name} {verb[0]}: {status}")
                complaints = [line for line in words.splitlines() if not line.startswith("run: ")]
                if status != 2 or len(complaints) != 1:
                    return Found(f"{ends[-1]}, “{words}”", False)
            shutil.rmtree(copy)
        return Found(f"exit statuses {', '.join(ends)}", True)


def exposed_token(paceline: str) -> Found:
    with training(paceline, False) as run:
        (run.run / "token").chmod(0o640)
        worker = subprocess.run([paceline, "worker", "--name", "w0", "--coordinator", ":".join(map(str, run.address())),
                                 "--token-file", run.run / "token"], capture_output=True, text=True, timeout=ENDS_S)  # fmt: skip
        said = "others on this host can read" in worker.stderr
        status = run.stop()
        return Found(f"{'said' if said else 'taken silently'}, exit status {worker.returncode} and {status}",
                     said and status == 130)  # fmt: skip


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
    # A shell that starts this in the background ignores SIGINT, and a run would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    count = min(SHORT_CONNECTIONS if arguments.short else arguments.connections, most - 100)
    # Label, name, what it does; and whether it is in the short form.
    attacks: list[tuple[str, str, Callable[[], Found], bool]] = [
        ("A", "silent connections", lambda: strangers(paceline, False, b"", count), False),
        ("A", "silent connections, TLS", lambda: strangers(paceline, True, b"", count), False),
        ("A", "half an opening", lambda: strangers(paceline, False, b"paceli", count), False),
        ("A", "handshakes that stop, TLS", lambda: strangers(paceline, True, TLS_HELLO, count), True),
        ("A", "handshakes that stop while the coordinator comes back", lambda: flood_while_it_comes_back(paceline), True),
        ("B", "requests without end", lambda: requests(paceline, False, count), True),
        ("B", "requests without end of another job's certificate, TLS", lambda: requests(paceline, True, count), True),
        ("B", "a certificate of another job", lambda: of_another_job(paceline), True),
        ("C", "numbers that are not finite", lambda: not_finite(paceline), False),
        ("D", "processes killed", lambda: kills(paceline), False),
        ("E", "an impostor at the port", lambda: impostor(paceline), True),
        ("F", "processes killed while a run comes back", lambda: kills_while_it_comes_back(paceline), False),
        ("G", "a flipped byte in the newest checkpoint", lambda: flipped_byte(paceline), False),
        ("H", "a crowd at the links between hosts", lambda: crowded_links(paceline), True),
        ("I", "wrong proofs", lambda: refused_calls(paceline), False),
        ("J", "symbolic links in a run folder", lambda: links_in_a_run(paceline), False),
        ("K", "named pipes in a run folder", lambda: pipes_in_a_run(paceline), True),
        ("L", "a token that others can read", lambda: exposed_token(paceline), True),
    ]
    failed = False
    for label, name, attack, short in attacks:
        if arguments.only not in (f"{label} {name}") or (arguments.short and not short):
            continue
        found = attack()
        failed = failed or not found.held_up
        print(f"{'held up' if found.held_up else 'FAILED '}  {label}  {name}: {found.figures}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
