"""The hosts of a job on a Ray cluster, until the run is over: one actor each, which Ray may start anew."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError

from ..errors import PacelineError
from .ray_answers import line_of
from .ray_host import Look
from .ray_plan import Plan
from .ray_result import History

_PAUSE_S = 0.5  # between two looks at the hosts
_SILENT_S = 60.0  # a host that does not answer for so long is taken for lost
_MOST_STARTS = 6  # The limit for one host whose command was killed.
_CLEAN_S = 10.0  # for the certificates to be removed
_STOP_S = 300.0  # for a run that is stopped to write its checkpoint


@dataclass
class _Host:
    rank: int
    actor: Any
    ip: str
    asked: Any = None  # the answer that is under way
    asked_at: float = 0.0
    here: bool = True
    look: Look | None = None
    starts: int = 0

    @property
    def ended(self) -> bool:
        return self.look is not None and self.look.status is not None

    @property
    def runs(self) -> bool:
        return self.here and self.look is not None and self.look.started and self.look.status is None


class Hosts:
    """Starts the commands of all hosts, and looks after them until the run is over."""

    def __init__(
        self,
        plan: Plan,
        actors: Sequence[Any],
        ips: Sequence[str],
        certificates: Mapping[str, bytes],
        new_metrics: Callable[[dict[str, Any]], None],
        resume: str | None = None,
    ) -> None:
        """resume: the run folder to go on with."""
        self.history = History()
        self._plan, self._certificates, self._new_metrics = plan, certificates, new_metrics
        self._hosts = [_Host(rank, actor, ip) for rank, (actor, ip) in enumerate(zip(actors, ips))]
        self._resume = resume
        self._run = None if resume is None else Path(resume).name  # the run folder's name, which is one for all hosts
        self._heard: set[int] = set()  # the ranks of hosts whose metrics from before the start have come
        self._done = False

    def train(self) -> tuple[Any, str, str]:
        """Until the run is over. Returns the actor that has the run folder, the folder, and its node's address."""
        for host in self._hosts:
            self._start(host)
        while not self._over():
            for host in self._answers():
                self._see(host)
            self._judge()
        return self._with_run()

    def stop(self) -> None:
        """Stops the run, if it still trains, and waits for its checkpoint."""
        until = time.monotonic() + _STOP_S
        told: set[int] = set()
        while time.monotonic() < until and any(host.runs for host in self._hosts):
            for host in self._hosts:
                if host.runs and host.rank not in told:
                    told.add(host.rank)
                    host.actor.stop.remote()
            self._answers()
        cleaned = [host.actor.clean.remote(self._plan.secrets) for host in self._hosts if host.here]
        if cleaned:
            ray.wait(cleaned, num_returns=len(cleaned), timeout=_CLEAN_S)

    # The answers of the hosts.

    def _start(self, host: _Host) -> None:
        host.starts += 1
        coordinator = self._hosts[0].ip if host.rank == 0 else self._coordinator()
        words = self._plan.words(host.rank, coordinator, self._resume)
        secrets = f"{self._plan.secrets}/{self._plan.name}"
        host.look = None
        host.asked = host.actor.start.remote(words, self._plan.job, secrets, self._certificates, self._run)
        host.asked_at = time.monotonic()

    def _coordinator(self) -> str:
        """The node that leads the run, which others have to reach."""
        for host in self._hosts:
            if host.runs and host.look is not None and host.look.leader is not None:
                return host.look.leader.rpartition(":")[0]
        return self._hosts[0].ip

    def _answers(self) -> list[_Host]:
        """The hosts that have said how they are, after a pause."""
        for host in self._hosts:
            if host.asked is None:
                host.asked, host.asked_at = host.actor.look.remote(self._run), time.monotonic()
        time.sleep(_PAUSE_S)
        ready, _ = ray.wait([host.asked for host in self._hosts], num_returns=len(self._hosts), timeout=0)
        answered = []
        for host in self._hosts:
            if host.asked in ready:
                asked, host.asked = host.asked, None
                if self._answered(host, asked):
                    answered.append(host)
            elif host.here and time.monotonic() - host.asked_at > _SILENT_S:
                self._lose(host)
        return answered

    def _answered(self, host: _Host, asked: Any) -> bool:
        try:
            host.look = ray.get(asked)
        except RayActorError:
            self._lose(host)
            return False
        except RayError as error:
            raise PacelineError(f"host {host.rank}: {line_of(error)}") from None
        if not host.here:
            host.here = True
            host.ip = _ip_of(host.actor, host.ip)
        return True

    def _lose(self, host: _Host) -> None:
        if host.here and not self._done:
            _say(f"host {host.rank} ({host.ip}) is lost; Ray is asked for another node, and the others go on")
        host.here, host.look = False, None

    # The decisions about them.

    def _see(self, host: _Host) -> None:
        look = host.look
        assert look is not None
        if look.run is not None and (host.rank == 0 or self._run is None):
            self._run = Path(look.run).name
        self._hear(host, look)
        self._done = self._done or look.status == 0
        if not look.started and not self._done and self._may_start(host):
            _say(f"host {host.rank} is on {host.ip} now, and takes part again")
            self._start(host)
        elif look.status is not None and look.status < 0 and not self._done:
            if host.starts >= _MOST_STARTS:
                raise PacelineError(
                    f"host {host.rank} ({host.ip}): `paceline node` was killed {host.starts} times; look there "
                    "for what killed it (the system does if memory runs out)"
                )
            _say(f"host {host.rank}: `paceline node` was killed, and is started again")
            self._start(host)

    def _hear(self, host: _Host, look: Look) -> None:
        if self._resume is not None and host.rank not in self._heard:
            self.history.recall(look.metrics)
        else:
            for metrics in self.history.add(look.metrics):
                self._new_metrics(metrics)
        self._heard.add(host.rank)

    def _may_start(self, host: _Host) -> bool:
        # Without a shared folder a new node has nothing of the run. As host 0 it would begin another one.
        begins = self._resume is None and not self.history.trained
        return host.rank > 0 or begins or (host.look is not None and host.look.run is not None)

    def _judge(self) -> None:
        if self._done:
            return
        # A host that was given up ends, and the run goes on without it.
        failed = [host for host in self._hosts if host.ended and host.look is not None and not host.look.given_up]
        if failed and (not self.history.trained or not any(host.runs for host in self._hosts)):
            raise PacelineError(self._why(failed))
        first = self._hosts[0]
        without = first.here and first.look is not None and not first.look.started and not self._may_start(first)
        if without and not any(host.runs or (host.here and host.look is None) for host in self._hosts[1:]):
            raise PacelineError(
                f"host 0 is on {first.ip} now, and the run folder {self._run} is on the node that is lost; write "
                "storage_path= with a folder that all nodes see, and the run goes on there the next time"
            )

    def _why(self, failed: Sequence[_Host]) -> str:
        host = failed[0]
        assert host.look is not None
        said = host.look.said or f"`paceline node` ended with status {host.look.status}"
        run = "" if host.look.run is None else f"; its folder is {host.look.run}"
        return f"host {host.rank} ({host.ip}): {said.removeprefix('paceline: ')}{run}"

    def _over(self) -> bool:
        """Hosts that are lost, or wait for a run that is over, are not waited for."""
        return self._done and not any(host.runs and host.starts > 0 for host in self._hosts)

    def _with_run(self) -> tuple[Any, str, str]:
        for host in self._hosts:
            if host.look is not None and host.look.status == 0 and host.look.run is not None:
                return host.actor, host.look.run, host.ip
        raise PacelineError(
            "the run is over, and the host with its folder is lost; for the next run, write storage_path= with a "
            "folder that all nodes see"
        )


def _ip_of(actor: Any, before: str) -> str:
    try:
        return str(ray.get(actor.ip.remote(), timeout=_SILENT_S))
    except (RayActorError, GetTimeoutError):
        return before


def _say(line: str) -> None:
    print(f"paceline: {line}", file=sys.stderr, flush=True)
