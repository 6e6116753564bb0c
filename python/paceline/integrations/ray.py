"""A Paceline job on the nodes of a Ray cluster.

    result = paceline.integrations.ray.run("train.py", hosts=2, resources_per_host={"CPU": 4})

One actor on each of `hosts` nodes runs the node's part of the job. If a node is lost, the job goes on, and takes
another one in if Ray has it in time. docs/schedulers.md has the details.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Callable

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from ..errors import PacelineError
from .ray_answers import answers, say
from .ray_host import Host
from .ray_hosts import Hosts
from .ray_plan import Plan, check_settings, runs_dir
from .ray_result import Result

__all__ = ["Result", "run", "trial_resources"]

_ANSWER_S = 120.0  # for an actor on a loaded node
_EXPORT_S = 3600.0  # for the weights of a large model on a slow disk


def run(
    program: str | os.PathLike[str],
    args: Sequence[str] = (),
    *,
    hosts: int = 1,
    resources_per_host: Mapping[str, float] | None = None,
    devices_per_host: int | None = None,
    job: str | os.PathLike[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    name: str | None = None,
    storage_path: str | os.PathLike[str] | None = None,
    resume: str | None = None,
    report: Callable[[dict[str, Any]], None] | None = None,
    start_limit_s: float = 600,
) -> Result:
    """Trains `program` on this many nodes, and returns when the run is over.

    program, args: a script that calls paceline.join(), and its arguments. A relative path is looked for in the folder
        that Ray gives the job (runtime_env's working_dir), then in the folder of this process.
    hosts: the number of nodes, each with `resources_per_host` of its own; {"CPU": 1} without it.
    devices_per_host: workers on each node. Without it and without `job`: one a GPU, or one.
    job: a job file; settings: keys of the job, {"sync.policy": "cgp"}.
    name: the job's, and the start of its run folder's; without it, the program's, in a trial of Tune with its id.
    storage_path: a folder that all nodes see. Without it each node keeps its runs in ~/ray_results/paceline, and
        without `job` too the weights are kept on two nodes.
    resume: a run folder to go on with; "auto": this job's newest one, if it was cut short.
    report: called with the metrics of each evaluation, beside ray.tune.report() in a trial.
    start_limit_s: how long to wait for the nodes.
    """
    resources = dict(resources_per_host or {"CPU": 1})
    _check(hosts, resources)
    check_settings(settings or {})
    if not ray.is_initialized():
        ray.init()
    trial = _trial_id()
    named = _name(name or Path(program).stem + (f"-{trial}" if trial else ""))
    if resume not in (None, "auto"):
        resume = os.path.abspath(os.path.expanduser(os.fspath(resume)))
    with _actors(os.fspath(program), hosts, resources, named, runs_dir(storage_path), start_limit_s) as actors:
        places, ips = _places(actors, max(start_limit_s, _ANSWER_S))
        if resume == "auto":
            first, resume = _newest_run(actors, storage_path is not None)
            # The other hosts may be any nodes.
            for of_nodes in (actors, places, ips):
                of_nodes.insert(0, of_nodes.pop(first))
        plan = Plan(
            name=named,
            program=os.fspath(program),
            args=list(args),
            folder=places[0].folder,
            hosts=hosts,
            devices_per_host=_devices(devices_per_host, job, resources),
            runs_dir=runs_dir(storage_path),
            shared=storage_path is not None,
            port=places[0].port,
            secrets=f"/tmp/paceline-{os.getuid()}-{secrets.token_hex(8)}",
            job="" if job is None else Path(job).read_text(encoding="utf-8"),
            settings=dict(settings or {}),
        )
        return _train(plan, actors, ips, resume, _reporters(trial, report))


def trial_resources(hosts: int = 1, resources_per_host: Mapping[str, float] | None = None) -> Any:
    """The resources of a trial of Ray Tune that calls run() with the same numbers: for tune.with_resources()."""
    from ray import tune

    resources = dict(resources_per_host or {"CPU": 1})
    _check(hosts, resources)
    return tune.PlacementGroupFactory([{}, *[resources] * hosts], strategy="STRICT_SPREAD")


def _train(
    plan: Plan, actors: Sequence[Any], ips: Sequence[str], resume: str | None, report: Callable[..., None]
) -> Result:
    certificates = answers([actors[0].make_certificates.remote()], _ANSWER_S)[0] if plan.hosts > 1 else {}
    cluster = Hosts(plan, actors, ips, certificates, report, resume)
    try:
        with_run, path, ip = cluster.train()
    finally:
        cluster.stop()
    metrics = cluster.history.last()
    checkpoint = _checkpoint(with_run, path, _trial_id())
    report(metrics, checkpoint, over=True)
    return Result(metrics, checkpoint, path, ip, cluster.history.evaluations)


def _newest_run(actors: Sequence[Any], shared: bool) -> tuple[int, str | None]:
    """The index of the actor whose node has this job's newest unfinished run, and the run's folder there."""
    found = answers([actor.unfinished_run.remote() for actor in (actors[:1] if shared else actors)], _ANSWER_S)
    runs = [(run.name, run.samples, -index) for index, run in enumerate(found) if run is not None]
    if not runs:
        say("no run of this job was cut short or stopped; a new one begins")
        return 0, None
    index = -max(runs)[2]
    return index, found[index].folder


# Actors on nodes of Ray.


@contextlib.contextmanager
def _actors(
    program: str,
    hosts: int,
    resources: Mapping[str, float],
    name: str,
    folder: str,
    limit_s: float,
) -> Iterator[list[Any]]:
    """An actor on each of this many nodes. Ray starts it again, on another node too, when it is lost."""
    of_trial = _group_of_trial(hosts)
    group = of_trial or placement_group([dict(resources)] * hosts, strategy="STRICT_SPREAD")
    first = len(group.bundle_specs) - hosts
    actors: list[Any] = []
    try:
        _wait_for(group, hosts, resources, limit_s)
        cls = ray.remote(_Actor)
        for rank in range(hosts):
            options = {
                "num_cpus": resources.get("CPU", 0),
                "num_gpus": resources.get("GPU", 0),
                "memory": resources.get("memory", 0),
                "resources": {key: of for key, of in resources.items() if key not in ("CPU", "GPU", "memory")},
                "max_restarts": -1,
                "scheduling_strategy": PlacementGroupSchedulingStrategy(group, first + rank),
            }
            actors.append(cls.options(**options).remote(program, os.getcwd(), folder, name))
        yield actors
    finally:
        for actor in actors:
            ray.kill(actor)
        if of_trial is None:
            remove_placement_group(group)


def _group_of_trial(hosts: int) -> Any:
    """The nodes that Ray Tune holds for this trial, if it was told of the hosts with trial_resources()."""
    if _trial_id() is None:
        return None
    group, resources = ray.util.get_current_placement_group(), ray.tune.get_context().get_trial_resources()
    own = 0 if resources.head_bundle_is_empty else 1  # the bundle of the trial's own process
    return group if group is not None and len(group.bundle_specs) >= hosts + own else None


class _Actor(Host):
    def ip(self) -> str:
        return str(ray.util.get_node_ip_address())


def _wait_for(group: Any, hosts: int, resources: Mapping[str, float], limit_s: float) -> None:
    until, told = time.monotonic() + limit_s, False
    while not group.wait(min(10.0, max(0.1, until - time.monotonic()))):
        line = f"{hosts} node{'s' if hosts > 1 else ''} with {dict(resources)} free on each"
        if time.monotonic() >= until:
            there = "; ".join(_resources_of(node) for node in ray.nodes() if node["Alive"])
            raise PacelineError(
                f"Ray had no {line} within {limit_s:g} s; it has {there}; ask for less with hosts= or "
                "resources_per_host=, or add nodes"
            )
        if not told:
            # A trial's own processors are taken, unless Tune knows that its hosts need some.
            trial = "; this trial holds none for its hosts: tune.with_resources(trial, trial_resources(...))"
            in_trial = trial if _trial_id() is not None and _group_of_trial(hosts) is None else ""
            say(f"waiting for {line}{in_trial}")
            told = True


def _resources_of(node: Mapping[str, Any]) -> str:
    shown = {key: of for key, of in node["Resources"].items() if not key.startswith(("node:", "object_store"))}
    shown.pop("memory", None)
    return f"{node['NodeManagerAddress']}: {shown}"


def _places(actors: Sequence[Any], limit_s: float) -> tuple[list[Any], list[Any]]:
    """The places, and the addresses of their nodes.

    limit_s: also for Ray to make the actors' environments, which may install packages.
    """
    places = answers([actor.place.remote() for actor in actors], limit_s, ", or set a longer start_limit_s=")
    ips = answers([actor.ip.remote() for actor in actors], _ANSWER_S)
    for ip, place in zip(ips, places):
        if place.problem is not None:
            raise PacelineError(f"node {ip}: {place.problem}")
    return places, ips


# The numbers and weights, for Ray.


def _trial_id() -> str | None:
    """The trial's, in one of Ray Tune."""
    if "ray.tune" not in sys.modules:
        return None
    from ray.tune.trainable.trainable_fn_utils import _in_tune_session

    return str(ray.tune.get_context().get_trial_id()) if _in_tune_session() else None


def _reporters(trial: str | None, report: Callable[[dict[str, Any]], None] | None) -> Callable[..., None]:
    def tell(metrics: dict[str, Any], checkpoint: Any = None, over: bool = False) -> None:
        if trial is not None:
            ray.tune.report(metrics, checkpoint=checkpoint)
        if report is not None and not over:
            report(metrics)

    return tell


def _checkpoint(actors: Sequence[Any], path: str, trial: str | None) -> Any:
    """The weights of the run as Ray passes them on; None, and a line, if they cannot be had.

    actors: those that see the run folder. If this process does not, the weights are fetched.
    """
    if trial is None:
        from ray.train import Checkpoint
    else:
        from ray.tune import Checkpoint

    why = ""
    for actor in actors:
        try:
            folder = Path(answers([actor.export.remote(path)], _EXPORT_S)[0])
            if not (folder / "model.safetensors").exists():
                [weights] = answers([actor.weights.remote(path)], _EXPORT_S)
                folder = Path(runs_dir(None)) / Path(path).name / "model"
                folder.mkdir(parents=True, exist_ok=True)
                (folder / "model.safetensors").write_bytes(weights)
            return Checkpoint.from_directory(str(folder))
        except (PacelineError, OSError) as error:
            why = str(error)
    say(f"the run {path} is over, and its weights could not be exported: {why}")
    return None


# The arguments.


def _check(hosts: int, resources: Mapping[str, float]) -> None:
    if not isinstance(hosts, int) or not 1 <= hosts <= 64:
        raise PacelineError(f"hosts={hosts!r} cannot be; write a number from 1 to 64")
    if not any(of > 0 for of in resources.values()):
        raise PacelineError('resources_per_host: is empty; write for example {"CPU": 4} or {"CPU": 8, "GPU": 1}')


def _name(asked: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "-", asked) or "program"


def _devices(asked: int | None, job: Any, resources: Mapping[str, float]) -> int | None:
    if asked is not None or job is not None:
        return asked
    return max(1, int(resources.get("GPU", 0)))
