"""./dev bench predictions: what the planner predicts of ten models on three clusters, and what runs then take.

A cluster has one process, two equal ones, or two of which one is paced to half the speed. Each turn profiles the
model on a cluster, plans it, and runs the plan's own cut with one thread in each process. A turn counts only if other
programs took little of the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from places import HERE, environment, executable
from predictions_program import SUBJECTS, Subject
from statistics_of import error_of, machine, table

PROGRAM = HERE / "predictions_program.py"
COUNTER = "bench_counted_memory.so"  # beside the executable
CLUSTERS = {"one": [1.0], "1 : 1": [1.0, 1.0], "1 : 0.5": [1.0, 0.5]}
SKIPPED = 3  # first updates that are not measured
ROOM = 0.9  # memory of each of two devices, as a share of the whole model's need: so it has to be cut
MOST_OTHERS = 0.03  # share of the machine that other programs may have


def run(command: list[str], folder: Path, **more: str) -> str:
    ended = subprocess.run(command, cwd=folder, env={**environment(), **more}, capture_output=True, text=True)
    if ended.returncode != 0:
        raise SystemExit(f"bench: {' '.join(command)} failed:\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def counting() -> dict[str, str]:
    """The environment of a program whose memory is counted."""
    counter = Path(executable()).parent / COUNTER
    if not counter.exists():
        raise SystemExit(
            f"bench: there is no {counter}; cmake --build --preset release --target {counter.stem} makes it"
        )
    return {"LD_PRELOAD": str(counter)}


def planned(folder: Path, subject: Subject, speeds: list[float], memory_mb: float | None) -> Any:
    room = f"memory_mb = {memory_mb}\n" if memory_mb else ""
    devices = "".join(f"[[device]]\nname = 'w{n}'\nspeed = {speed}\n{room}" for n, speed in enumerate(speeds))
    text = f"batch = {subject.batch}\nmicro_batch = [{subject.micro_batch}]\n{devices}"
    (folder / "cluster.toml").write_text(text)
    plan = run([executable(), "plan", "cluster.toml", "--profile", "profile.toml", "--json", "-"], folder)
    return json.loads(plan)


def plan_of(folder: Path, name: str, speeds: list[float]) -> Any:
    subject = SUBJECTS[name]
    measure = ["--python", sys.executable, "--micro-batch", str(subject.micro_batch), "--processes", str(len(speeds))]
    run([executable(), "profile", str(PROGRAM), *measure, "-o", "profile.toml", "--", name, "20"], folder)
    whole = planned(folder, subject, speeds[:1], None)
    if len(speeds) == 1:
        return whole
    return planned(folder, subject, speeds, ROOM * whole["replicas"][0]["memory_mb"][0])


def job_of(name: str, speeds: list[float], replica: Any, updates: int) -> str:
    subject = SUBJECTS[name]
    paces = [f"pace = '{1 / speed}x'\n" if speed != 1 else "" for speed in speeds]
    devices = "".join(f"[[device]]\nbatch = {subject.batch}\n{pace}" for pace in paces)
    pipeline = f"[[pipeline]]\ndevices = {replica['devices']}\ncuts = {replica['cuts']}\nsamples = {subject.batch}\n"
    program = f"[program]\nrun = {str(PROGRAM)!r}\nargs = [{name!r}, '{updates}']\npython = {sys.executable!r}\n"
    return f"parallel = 'static'\nmicro_batch = {subject.micro_batch}\n{devices}{pipeline}{program}"


class OthersShare:
    """The share of the machine that neither this process nor its children had."""

    def __init__(self) -> None:
        self._machine, self._own = self._busy(), self._ours()

    @staticmethod
    def _busy() -> tuple[float, float]:
        ticks = [int(one) for one in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        return sum(ticks) / 100, (sum(ticks) - ticks[3] - ticks[4]) / 100

    @staticmethod
    def _ours() -> float:
        return sum(os.times()[:4])

    def share(self) -> float:
        whole, busy = (now - before for now, before in zip(self._busy(), self._machine))
        return max(0.0, busy - (self._ours() - self._own)) / whole


def measured(folder: Path, name: str, job: str) -> tuple[float, dict[str, tuple[float, float]]]:
    """Samples a second, and the most megabytes that each device's process had allocated while it computed."""
    (folder / "job.toml").write_text(job)
    run([executable(), "train", "job.toml"], folder, PREDICTIONS=str(folder), **counting())
    [summary] = folder.glob("runs/*/summary.json")
    commits = json.loads(summary.read_text())["training"]
    (since, before, _), (until, after, _) = commits[SKIPPED - 1], commits[-1]
    memory = {one.stem: tuple(json.loads(one.read_text())) for one in folder.glob("*.memory")}
    return (after - before) / (until - since), memory


def kernels_mb(name: str) -> float:
    return float(run([sys.executable, str(PROGRAM), name, "kernels"], Path.cwd(), **counting()))


def turn(name: str, speeds: list[float], updates: int, kernels: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        others = OthersShare()
        plan = plan_of(folder, name, speeds)
        [replica] = plan["replicas"]
        rate, own = measured(folder, name, job_of(name, speeds, replica, updates))
        found = []
        for device, predicted, weights, gradients in zip(
            replica["devices"], replica["memory_mb"], replica["weights_mb"], replica["gradients_mb"]
        ):
            most, kept = own[device]
            # PyTorch may have had its memory before the first micro-batch.
            used = most - min(kernels, max(0.0, kept)) + weights + gradients
            found.append({"device": device, "predicted_mb": predicted, "used_mb": used})
        return {
            "predicted": plan["samples_per_s"],
            "measured": rate,
            "cuts": replica["cuts"],
            "memory": found,
            "others": others.share(),
        }


def row(name: str, cluster: str, turns: list[dict[str, Any]]) -> list[str]:
    def mean(key: str) -> float:
        return statistics.mean(one[key] for one in turns)

    errors = [100 * (one["predicted"] / one["measured"] - 1) for one in turns]
    memory = []
    for stage in range(len(turns[0]["memory"])):
        said = statistics.mean(one["memory"][stage]["predicted_mb"] for one in turns)
        used = max(one["memory"][stage]["used_mb"] for one in turns)
        memory.append(f"{said:.1f} / {used:.1f} ({100 * (said / used - 1):+.0f} %)")
    error = f"{statistics.mean(errors):+.1f}" + (f" ± {error_of(errors):.1f}" if len(errors) > 1 else "")
    return [name, cluster, f"{mean('predicted'):.1f}", f"{mean('measured'):.1f}", error, ", ".join(memory)]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="./dev bench predictions", description="what plans predict, and what runs take"
    )
    parser.add_argument("--models", nargs="+", choices=list(SUBJECTS), default=list(SUBJECTS))
    parser.add_argument("--clusters", nargs="+", choices=list(CLUSTERS), default=list(CLUSTERS))
    parser.add_argument("--turns", type=int, default=3, help="of each model on each cluster (3)")
    parser.add_argument("--updates", type=int, default=23, help="of each run (23)")
    parser.add_argument("--most-others", type=float, default=MOST_OTHERS, help="of the machine (0.03)")
    parser.add_argument("--lines", metavar="FILE", help="a JSON line for each turn is added to this file")
    parser.add_argument("--table", metavar="FILE", help="measure nothing: the table of such a file")
    arguments = parser.parse_args()
    if arguments.table:
        show([json.loads(line) for line in Path(arguments.table).read_text().splitlines()], arguments.most_others)
        return
    executable()
    turns = []
    for _ in range(arguments.turns):
        for name in arguments.models:
            kernels = kernels_mb(name)
            for cluster in arguments.clusters:
                found = {
                    "model": name,
                    "cluster": cluster,
                    **turn(name, CLUSTERS[cluster], arguments.updates, kernels),
                }
                turns.append(found)
                print(json.dumps(found), file=sys.stderr, flush=True)
                if arguments.lines:
                    with open(arguments.lines, "a") as lines:
                        lines.write(json.dumps(found) + "\n")
    show(turns, arguments.most_others)


def show(turns: list[dict[str, Any]], most_others: float) -> None:
    rows = []
    kept = [one for one in turns if one["others"] <= most_others]
    for name, cluster in dict.fromkeys((one["model"], one["cluster"]) for one in kept):
        rows.append(row(name, cluster, [one for one in kept if (one["model"], one["cluster"]) == (name, cluster)]))
    head = ["", "devices", "predicted samples/s", "measured", "off by %", "MB, predicted / used"]
    print(table(head, rows))
    print(
        f"\n{len(kept)} of {len(turns)} turns count: in the others, other programs took more of the machine. "
        f"{machine()}."
    )


if __name__ == "__main__":
    main()
