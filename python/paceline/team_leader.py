"""The first process of a worker that has several: it starts the others, and watches them."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import torch

from ._version import PROTOCOL
from .channel import VARIABLE, Channel, Message
from .devices import environment_at_first
from .errors import PacelineError
from .failures import Failure
from .first_seed import VARIABLE as SEED
from .frozen import Frozen
from .inventory import Inventory
from .launching import own_arguments, own_command, own_folder
from .micro_batches import MicroBatches
from .seeding import mix
from .session import Session
from .team import Part, Team, part_of

_STANDS_STILL_S = 2.0


class FollowerProcess:
    """One further process, from the leader's side."""

    def __init__(self, rank: int, start: Message) -> None:
        self.rank = rank
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, *own_command(), *own_arguments()],
                cwd=own_folder(),
                stdin=subprocess.DEVNULL,
                env={**environment_at_first(), VARIABLE: str(theirs.fileno()), SEED: str(start["seed"])},
                pass_fds=[theirs.fileno()],
            )
        self._channel = Channel(ours.detach())
        self.send(start)

    def send(self, message: Message) -> None:
        self._channel.write(message)  # whether it listens shows when it is heard

    def hear(self) -> Message:
        """Returns the follower's message "here". Raises the error that ended the follower."""
        while True:
            self._wait()
            message = self._channel.read()
            if message is None:
                raise PacelineError(f"process {self.rank} of this worker {self._how_it_ended()}")
            if message["type"] == "error":
                raise _failed(message)
            if message["type"] == "here":
                return message

    def blame(self) -> None:
        """A collective failed: raises an error if this process is the cause."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_STANDS_STILL_S)
            self.hear()

    def end(self, message: Message) -> None:
        self.send(message)
        self._channel.close()

    def wait(self) -> None:
        """Until it has ended; how is a line where that is not well."""
        if self._process.wait() != 0:
            how = self._how_it_ended()
            print(f"paceline: after the job process {self.rank} of this worker {how}", file=sys.stderr)

    def kill(self) -> None:
        self._process.kill()

    def _wait(self) -> None:
        still_since: float | None = None
        while not self._channel.ready(0.2):
            if not _stands_still(self._process.pid):
                still_since = None
            elif still_since is None:
                still_since = time.monotonic()
            elif time.monotonic() - still_since > _STANDS_STILL_S:
                raise PacelineError(f"process {self.rank} of this worker was stopped by a signal and does not go on")

    def _how_it_ended(self) -> str:
        try:
            code = self._process.wait(_STANDS_STILL_S)
        except subprocess.TimeoutExpired:
            return "closed its socket"
        return f"ended (exit status {code})" if code >= 0 else f"was killed by {signal.Signals(-code).name}"


def _failed(message: Message) -> Exception:
    """The error that the follower reported, with the place that it named."""
    error = PacelineError(str(message.get("text")))
    error.paceline_failure = Failure(str(error), str(message.get("where", "")))  # type: ignore[attr-defined]
    return error


def _stands_still(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in ("T", "t")
    except (OSError, IndexError):
        return False


class Leader(Team):
    def __init__(
        self, session: Session, inventory: Inventory, frozen: Frozen, device: torch.device, processes: int
    ) -> None:
        super().__init__(inventory, frozen, device, 0, processes)
        self._folder = tempfile.mkdtemp(prefix="paceline-")
        self._meeting = os.path.join(self._folder, "meeting")
        self._ended = False
        self._shares = [0.0] * processes
        start = {
            "type": "start",
            "protocol": PROTOCOL,
            "role": "follower",
            "name": session.name,
            "on_host": session.on_host,
            "devices": session.devices,
            "seed": session.seed,
            "weights": session.weights,
            "settings": session.settings,
            "processes": processes,
            "leader": os.getpid(),
            "meeting": self._meeting,
        }
        self._followers: list[FollowerProcess] = []
        atexit.register(self._leave)
        for rank in range(1, processes):
            self._followers.append(FollowerProcess(rank, {**start, "rank": rank}))

    def share(self, step: Message) -> Part:
        samples = step["samples"]
        parts = [part_of(samples, rank, self._processes) for rank in range(self._processes)]
        self._shares = [len(part) / len(samples) for part in parts]
        for follower, part in zip(self._followers, parts[1:]):
            # Other dropout than here. A CPU's generator and NumPy's read the lower 32 bits alone.
            seed = mix(int(step["seed"]), follower.rank)
            places: Message = {"weights": [], "gradients": []}
            follower.send({**step, **places, "samples": list(part), "seed": seed})
        self._meet_first()
        return parts[0]

    def _meet_first(self) -> None:
        if self._connected:
            return
        own = [entry.message() for entry in [*self._entries, *self._frozen]]
        digests = self._digests()
        gpus = [self._gpu()]
        for follower, said in zip(self._followers, self._hear()):
            if said["tensors"] != own:
                raise PacelineError(
                    f"process {follower.rank} of this worker has another model than the first one; "
                    "build the same model in each"
                )
            gpus.append(said["gpu"])
            self._spread |= {name for name, one in said["frozen"].items() if digests[name] != one}
        # NCCL refuses two processes on one GPU.
        backend = "nccl" if None not in gpus and len(set(gpus)) == len(gpus) else "gloo"
        self._go({"backend": backend, "spread": sorted(self._spread)})
        self._connect(self._meeting, backend)

    def share_last(self, message: Message) -> None:
        for follower in self._followers:
            follower.send({**message, "weights": []})
        self._meet_first()

    def own_part(self, samples: Part) -> Part:
        return part_of(samples, 0, self._processes)

    def expect(self, batches: list[Message]) -> None:
        for follower in self._followers:
            parts = [part_of(batch["samples"], follower.rank, self._processes) for batch in batches]
            theirs = [{**batch, "samples": list(part)} for batch, part in zip(batches, parts) if part]
            follower.send({"type": "expect", "batches": theirs})

    def spread_weights(self) -> None:
        self._hear()
        self._go({})
        with self._blaming():
            self._broadcast_weights()

    def average(self, micro: MicroBatches) -> bool:
        said = self._hear()
        self._weigh(micro, [one["weight"] for one in said])
        self._gather(micro, said)
        skipped = micro.skipped or any(one["skipped"] for one in said)
        for follower, share in zip(self._followers, self._shares[1:]):
            follower.send({"type": "go", "skipped": skipped, "share": share})
        with self._blaming():
            self._sum(self._shares[0])
        return skipped

    def _weigh(self, micro: MicroBatches, others: list[float | None]) -> None:
        """Shares by weight, if the program gives weights. A part without one counts for its samples."""
        weights = [micro.weight, *others]
        known = sum(weight for weight in weights if weight is not None)
        if known == 0:
            micro.weight = None if all(weight is None for weight in weights) else 0.0
            return
        of = sum(share for share, weight in zip(self._shares, weights) if weight is not None)
        micro.weight = known / of
        self._shares = [
            share if weight is None else weight / micro.weight for share, weight in zip(self._shares, weights)
        ]

    def _gather(self, micro: MicroBatches, said: list[Message]) -> None:
        """Means over the whole batch, of the numbers that there are."""
        losses = [micro.loss] + [float("nan") if one["loss"] is None else one["loss"] for one in said]
        micro.loss = sum(share * loss for share, loss in zip(self._shares, losses) if share)
        metrics = [micro.metrics] + [one["metrics"] for one in said]
        for name in {name for measured in metrics for name in measured}:
            known = [(share, one[name]) for share, one in zip(self._shares, metrics) if share and name in one]
            micro.metrics[name] = sum(share * value for share, value in known) / sum(share for share, _ in known)

    def end(self, message: Message) -> None:
        for follower in self._followers:
            follower.end({"type": "end", "why": message.get("why", ""), "failed": message.get("failed", False)})
        self._ended = not message.get("failed")
        self._disconnect()

    def _hear(self) -> list[Message]:
        return [follower.hear() for follower in self._followers]

    def _go(self, message: Message) -> None:
        for follower in self._followers:
            follower.send({"type": "go", **message})

    @contextlib.contextmanager
    def _blaming(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError:
            for follower in self._followers:
                follower.blame()
            raise

    def _leave(self) -> None:
        """A script may go on after the job, for as long as the worker lets it; where that failed nobody does."""
        for follower in self._followers:
            if self._ended:
                follower.wait()
            else:
                follower.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
