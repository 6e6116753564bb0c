"""./dev bench slow-link: one real model over four hosts, while a link and then a device become slow and recover.

ResNet-20 on CIFAR-10. No device can hold the whole model, so replicas are pipelines over hosts. The hosts are
network namespaces on this machine, each with one device whose pace is held, and joined by links of a given
bandwidth. A link that the plan uses carries a tenth for a while, and later the last device is slower for a while.
Every way to make plans trains in the same five phases. The table says samples a second over each phase, in which a
plan that changes is looked for and changed to, and in its later half. Needs root and iproute2.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
import tempfile
import time
from pathlib import Path

from hosts import Hosts, NotStartedError, free_port, make_certs, nodes, wait_for_first_commit

HOSTS = 4
JOB = """name = "slow-link"
batch = 16
micro_batch = 4
epochs = 1000
parallel = "{parallel}"
cluster.hosts = 4
cluster.seal = true
network.listen = "0.0.0.0:{port}"
network.certs = "{certs}"
runs_dir = "{runs}"
seed = {seed}
[model]
name = "resnet20"
[data]
source = "cifar10:{data}"
train_samples = 10000
test_samples = 100
[evaluate]
every_epochs = 1000
[optimizer]
lr = 0.05
[link]
gbps = {gbps}
[[device]]
count = 4
pace_ms = {pace_ms}
memory_mb = 6
jitter = 0.05
[[change]]
device = 3
at_s = {slow_at_s}
until_s = {slow_until_s}
factor = 3
"""


def samples_between(runs: Path, begin_s: float, end_s: float) -> float:
    """A second."""
    [journal] = runs.glob("*/journal.sqlite")
    with sqlite3.connect(f"file:{journal}?mode=ro", uri=True) as database:
        rows = database.execute(
            "SELECT at_ns / 1e9, samples FROM commits WHERE at_ns BETWEEN ? AND ? ORDER BY version",
            (begin_s * 1e9, end_s * 1e9),
        ).fetchall()
    if len(rows) < 2:
        return 0.0
    return sum(samples for _, samples in rows[1:]) / (rows[-1][0] - rows[0][0])


def plans(runs: Path) -> list[tuple[float, list[dict], str]]:
    """From when on, the replicas, and why."""
    [journal] = runs.glob("*/journal.sqlite")
    with sqlite3.connect(f"file:{journal}?mode=ro", uri=True) as database:
        rows = database.execute("SELECT at_ns / 1e9, plan, why FROM plans ORDER BY seq").fetchall()
    return [(at_s, json.loads(text)["replicas"], why) for at_s, text, why in rows]


def error_of_predictions(runs: Path) -> float:
    """The mean of |predicted - measured| / measured over whole batches."""
    [journal] = runs.glob("*/journal.sqlite")
    with sqlite3.connect(f"file:{journal}?mode=ro", uri=True) as database:
        error = "SELECT avg(abs(predicted_ms - measured_ms) / measured_ms) FROM batches WHERE regular = 1"
        return database.execute(error).fetchone()[0]


def in_words(replicas: list[dict]) -> str:
    return " ".join(
        "→".join(f"w{device}" for device in one["devices"])
        + "".join(f"|{cut}" for cut in one["cuts"])
        + f":{one['samples']}"
        for one in replicas
    )


def link_in_use(runs: Path) -> tuple[int, int]:
    for replica in plans(runs)[-1][1]:
        if len(replica["devices"]) > 1:
            return replica["devices"][0], replica["devices"][1]
    raise SystemExit("slow-link: the plan uses no link between hosts")


def train(options: argparse.Namespace, parallel: str, seed: int, folder: Path) -> list[tuple[float, float]]:
    program, runs = options.program.resolve(), folder / "runs"
    port = free_port()
    ends = [0]
    for seconds in options.phases:
        ends.append(ends[-1] + seconds)
    job = folder / "job.toml"
    job.write_text(
        JOB.format(
            parallel=parallel,
            port=port,
            certs=make_certs(program, folder, "slow-link"),
            runs=runs,
            seed=seed,
            data=options.data.resolve(),
            gbps=options.mbit / 1000,
            pace_ms=options.pace_ms,
            slow_at_s=ends[3],
            slow_until_s=ends[4],
        )
    )
    hosts = Hosts(HOSTS, options.mbit)
    try:
        with nodes(hosts, program, job, port, []) as started:
            began = wait_for_first_commit(started[0], runs, folder / "log0")
            for phase, end in enumerate(ends[1:]):
                if phase == 1:
                    link = link_in_use(runs)
                    hosts.set_link(*link, options.mbit // 10)
                    print(f"  {end - options.phases[1]:6.1f} s  link {link[0]}-{link[1]} carries a tenth", flush=True)
                if phase == 2:
                    hosts.set_link(*link, options.mbit)
                time.sleep(max(0.0, began + end - time.monotonic()))
            for at_s, replicas, why in plans(runs):
                print(f"  {at_s:6.1f} s  {in_words(replicas)}  ({why})", flush=True)
            print(f"  batches were predicted {100 * error_of_predictions(runs):.1f} % off", flush=True)
            return [
                (samples_between(runs, begin, end), samples_between(runs, (begin + end) / 2, end))
                for begin, end in zip(ends, ends[1:], strict=False)
            ]
    finally:
        hosts.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench slow-link", description=__doc__)
    ways = ["joint", "frozen", "pipeline", "gpipe", "gpipe-work", "pipedream", "hetpipe"]
    parser.add_argument("--parallel", nargs="+", default=ways, help="the ways to plan")
    parser.add_argument("--seeds", type=int, default=1, help="of each")
    parser.add_argument("--phases", type=int, nargs=5, default=[40, 60, 60, 60, 40], help="seconds of each phase")
    parser.add_argument("--mbit", type=int, default=200, help="of every link, Mb/s")
    parser.add_argument("--pace-ms", type=float, default=320, help="of a device for its batch of 16")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/cifar10"), help="CIFAR-10")
    parser.add_argument("--keep", type=Path, help="a folder for the runs")
    parser.add_argument("--program", type=Path, default=Path("build/release/paceline"))
    options = parser.parse_args()
    print("samples a second, over a phase / in its later half", flush=True)
    print("plan          seed   all well       link slow      well again     device slow    well again", flush=True)
    for parallel in options.parallel:
        for seed in range(1, options.seeds + 1):
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch)
                try:
                    phases = train(options, parallel, seed, folder)
                except NotStartedError as error:
                    print(f"{parallel:13} {seed:4}   {error}", flush=True)
                    break
                if options.keep:
                    shutil.copytree(folder, options.keep / f"{parallel}-{seed}")
            figures = "  ".join(f"{whole:6.1f}/{later:6.1f}" for whole, later in phases)
            print(f"{parallel:13} {seed:4}   {figures}", flush=True)


if __name__ == "__main__":
    main()
