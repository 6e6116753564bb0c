"""The hosts of a job on a Ray cluster, until the run is over: one actor each, which Ray may start anew."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, ObjectLostError, RayActorError, RayError

from ..errors import PacelineError
from .ray_answers import answers, line_of, say
from .ray_host import Look
from .ray_plan import Plan
from .ray_result import History

_PAUSE_S = 0.5  # between two looks at the hosts
_SILENT_S = 60.0  # a host that does not answer for so long is taken for lost
_MOST_STARTS = 6  # The limit for starts of one host while nothing is trained.
_LOCK_S = 300.0  # for a file server to unlock the run folder of a host that is lost
_CLEAN_S = 10.0  # for the certificates to be removed
_STOP_S = 300.0  # for a run that is stopped to write its checkpoint
_IN_USE = " is in use by "  # another process has locked the run folder


@dataclass
class _Host:
    rank: int
    actor: Any
    ip: str
    asked: Any = None  # the answer that is under way
    asked_at: float = 0.0
    here: bool = True
    gone: str | None = None  # why Ray does not start its actor any more
    look: Look | None = None
    folder: str | None = None  # the run folder of which `read` bytes of metrics are known
    read: int = 0
    starts: int = 0
    samples: int = 0  # the trained ones at the newest start
    waits_until: float = 0.0  # for the run folder to be unlocked

    @property
    def ended(self) -> bool:
        return self.look is not None and self.look.status is not None

    @property
    def runs(self) -> bool:
        return self.here and self.look is not None and self.look.started and self.look.status is None

    @property
    def may_run(self) -> bool:
        """Whether its command runs, or has been started and has not been looked at yet."""
        return self.runs or (self.here and self.look is None and self.gone is None)


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
        """resume: the run folder to go on with, as host 0 sees it."""
        self.history = History()
        self._plan, self._certificates, self._new_metrics = plan, certificates, new_metrics
        self._hosts = [_Host(rank, actor, ip) for rank, (actor, ip) in enumerate(zip(actors, ips))]
        self._resumes, self._run = resume is not None, resume  # the run folder, as host 0 sees it
        self._done = False

    def train(self) -> tuple[list[Any], str, str]:
        """Until the run is over.

        Returns the actors that have the run folder, the best one first, the folder, and the address of its node.
        """
        if self._run is not None:
            self._recall(self._run)
        for host in self._hosts:
            self._start(host)
        while not self._over():
            for host in self._answers():
                if host.look is not None:  # None: it was just started again, because host 0 was
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
            with contextlib.suppress(PacelineError):  # an earlier error says more
                self._answers()
        cleaned = [host.actor.clean.remote(self._plan.secrets) for host in self._hosts if host.here]
        if cleaned:
            ray.wait(cleaned, num_returns=len(cleaned), timeout=_CLEAN_S)

    # The answers of the hosts.

    def _recall(self, run: str) -> None:
        """Takes the metrics from before the run is resumed."""
        [look] = answers([self._hosts[0].actor.look.remote(run)], _SILENT_S)
        self.history.recall(look.metrics)
        for host in self._hosts:
            if host.rank == 0 or self._plan.shared:
                host.folder, host.read = self._folder_on(host), look.read

    def _folder_on(self, host: _Host) -> str | None:
        """The run folder as this host sees it."""
        if self._run is None or host.rank == 0 or self._plan.shared:
            return self._run
        return f"{self._plan.folder_of_host(host.rank)}/{Path(self._run).name}"

    def _start(self, host: _Host) -> None:
        host.starts, host.samples = host.starts + 1, self.history.samples
        coordinator = self._hosts[0].ip if host.rank == 0 else self._coordinator()
        resumes = host.rank == 0 and self._run is not None
        words = self._plan.words(host.rank, coordinator, self._run if resumes else None, resumes and host.starts > 1)
        secrets = f"{self._plan.secrets}/{self._plan.name}"
        host.look = None
        host.asked = host.actor.start.remote(
            words, self._plan.job, secrets, self._certificates, self._plan.says_python
        )
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
            if host.asked is None and host.gone is None:
                folder = self._folder_on(host)
                if folder != host.folder:
                    host.folder, host.read = folder, 0
                host.asked, host.asked_at = host.actor.look.remote(folder, host.read), time.monotonic()
        time.sleep(_PAUSE_S)
        asked = [host.asked for host in self._hosts if host.asked is not None]
        ready = ray.wait(asked, num_returns=len(asked), timeout=0)[0] if asked else []
        answered = []
        for host in self._hosts:
            if host.asked in ready:
                asked_now, host.asked = host.asked, None
                if self._answered(host, asked_now):
                    answered.append(host)
            elif host.here and host.asked is not None and time.monotonic() - host.asked_at > _SILENT_S:
                self._lose(host, "does not answer")
        return answered

    def _answered(self, host: _Host, asked: Any) -> bool:
        try:
            host.look = ray.get(asked)
        except (RayActorError, ObjectLostError) as error:
            # An actor that Ray starts anew is only unavailable meanwhile.
            passes = isinstance(error, (ActorUnavailableError, ObjectLostError)) or getattr(error, "preempted", False)
            host.gone = None if passes else line_of(error)
            self._lose(host, "is lost; Ray is asked for another node" if passes else f"is lost: {host.gone}")
            return False
        except RayError as error:
            raise PacelineError(f"host {host.rank}: {line_of(error)}") from None
        if not host.here:
            host.here = True
            host.ip = _ip_of(host.actor, host.ip)
        return True

    def _lose(self, host: _Host, how: str) -> None:
        if host.here and not self._done:
            others = ", and the others go on" if any(one.runs for one in self._hosts if one is not host) else ""
            say(f"host {host.rank} ({host.ip}) {how}{others}")
        host.here, host.look = False, None

    # The decisions about them.

    def _see(self, host: _Host) -> None:
        look = host.look
        assert look is not None
        if look.run is not None and host.rank == 0:
            self._run = look.run
        if look.run is not None and look.run == host.folder:
            host.read = look.read
        for metrics in self.history.add(look.metrics, 0 if self._plan.shared else host.rank):
            self._new_metrics(metrics)
        self._done = self._done or look.status == 0
        if self._done:
            return
        if not look.started and self._may_start(host):
            self._start_again(host, f"is on {host.ip} now, and takes part again")
            if host.rank == 0 and self._begins:
                # The others wait for it at its old address.
                for other in self._hosts[1:]:
                    if other.may_run:
                        self._start(other)
        elif look.status is not None and look.status < 0:
            self._start_again(host, "had its command `paceline node` killed, and starts it again")
        elif look.status is not None and self._waits_for_folder(host, look.said):
            self._start(host)

    def _start_again(self, host: _Host, how: str) -> None:
        if self.history.samples > host.samples:
            host.starts = 1
        if host.starts >= _MOST_STARTS:
            raise PacelineError(
                f"host {host.rank} ({host.ip}) was started {host.starts} times, and each time it was lost or "
                "`paceline node` was killed before anything was trained; look there for what killed it (the system "
                "and Ray do if memory runs out)"
            )
        say(f"host {host.rank} {how}")
        if host.rank == 0 and self._begins and host.look is not None and host.look.run is None:
            self._run = None
        self._start(host)

    def _waits_for_folder(self, host: _Host, said: str) -> bool:
        """Whether host 0 tries again. A file server keeps the locks of a lost machine for a while."""
        now = time.monotonic()
        led = any(one.look is not None and one.look.led_by not in (None, 0) for one in self._hosts[1:])
        if host.rank > 0 or host.starts == 1 or _IN_USE not in said or led:
            return False
        if not host.waits_until:
            host.waits_until = now + _LOCK_S
            say(f"host 0 waits until the run folder is unlocked, at most {_LOCK_S:.0f} s: {said}")
        host.starts -= 1
        return now < host.waits_until

    @property
    def _begins(self) -> bool:
        """Whether nothing is lost if the run begins once more."""
        return not self._resumes and not self.history.trained

    def _may_start(self, host: _Host) -> bool:
        # Without a shared folder a new node has nothing of the run. As host 0 it would begin another one.
        return host.rank > 0 or self._begins or (host.look is not None and host.look.run is not None)

    def _judge(self) -> None:
        if self._done:
            return
        # A host that was given up ends, and the run goes on without it.
        failed = [host for host in self._hosts if host.ended and host.look is not None and not host.look.given_up]
        if failed and (not self.history.trained or not any(host.runs for host in self._hosts)):
            raise PacelineError(self._why(failed[-1]))
        if any(host.may_run for host in self._hosts[1:]):
            return
        first = self._hosts[0]
        if first.gone is not None:
            raise PacelineError(
                f'host 0 ({first.ip}) is lost: {first.gone}; look at `ray status`, and write resume="auto" to go on'
            )
        if first.here and first.look is not None and not first.look.started and not self._may_start(first):
            raise PacelineError(
                f"host 0 is on {first.ip} now, and the run folder {self._run} is on the node that is lost; write "
                "storage_path= with a folder that all nodes see, and the run goes on there the next time"
            )

    def _why(self, host: _Host) -> str:
        assert host.look is not None
        said = host.look.said or f"`paceline node` ended with status {host.look.status}"
        run = "" if host.look.run is None else f"; its folder is {host.look.run}"
        return f"host {host.rank} ({host.ip}): {said.removeprefix('paceline: ')}{run}"

    def _over(self) -> bool:
        """Hosts that are lost, or wait for a run that is over, are not waited for."""
        return self._done and not any(host.runs and host.starts > 0 for host in self._hosts)

    def _with_run(self) -> tuple[list[Any], str, str]:
        led = [host for host in self._hosts if host.look is not None and host.look.status == 0 and host.look.run]
        if not led:
            raise PacelineError(
                "the run is over, and the host with its folder is lost; for the next run, write storage_path= with a "
                "folder that all nodes see"
            )
        assert led[0].look is not None and led[0].look.run is not None
        others = [host for host in self._hosts if self._plan.shared and host.here and host is not led[0]]
        return [host.actor for host in [led[0], *others]], led[0].look.run, led[0].ip


def _ip_of(actor: Any, before: str) -> str:
    try:
        return str(ray.get(actor.ip.remote(), timeout=_SILENT_S))
    except (RayActorError, GetTimeoutError):
        return before
