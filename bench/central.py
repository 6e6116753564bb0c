"""./dev bench central: policies over nine hosts whose weights are all on the first one, live beside virtual time.

The static mix of examples/papers/cgp.toml (alexnet-small on CIFAR-10, replicas of 100 to 400 ms): eight replicas,
each on a host of its own. The hosts are network namespaces on this machine, and every host's link carries a given
bandwidth each way. `servers`: each gradient goes to the first host by itself; `group`: the sum of a commit is made on
the way there. `beside`: no first host, and each of the eight has a part of the weights. Each training runs live and
in virtual time, from the same job. `--slower 5`: the same in slow motion, where paces and links are five times as
slow, and what nine hosts on this machine need its processors for is not. Needs root and iproute2.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
from pathlib import Path

from hosts import Hosts, NotStartedError, free_port, make_certs, nodes, wait_for_first_commit

PAYLOAD = 0.945  # share of a link without the headers of Ethernet, IP and TCP, measured by iperf3
PACES_MS = [100, 100, 100, 150, 200, 250, 250, 400]  # a replica on a host of its own
JOB = """name = "central"
batch = {batch}
epochs = {epochs}
threads = 1
runs_dir = "{runs}"
seed = {seed}
[model]
name = "{model}"
[data]
source = "cifar10:{data}"
train_samples = 10000
[optimizer]
name = "sgd"
lr = 0.02
momentum = 0.9
[schedule]
shape = "cosine"
[evaluate]
every_epochs = 0.125
target = "accuracy >= 0.40"
[checkpoint]
every_epochs = 1000
[cluster]
hosts = {hosts}
server_gbps = {gbps}
[link]
gbps = {gbps}
"""
DEVICE = """[[device]]
pace_ms = {pace_ms}
jitter = 0.05
host = {host}
"""
PLACES = {
    "servers": ["cluster.placement=central", "cluster.reduction=servers"],
    "group": ["cluster.placement=central", "cluster.reduction=group"],
    "beside": ["cluster.placement=beside"],
}


def figures(runs: Path) -> dict[str, float]:
    """Samples a second, seconds to the target, accuracy at the end: of the only run."""
    [journal] = runs.glob("*/journal.sqlite")
    with sqlite3.connect(f"file:{journal}?mode=ro", uri=True) as database:
        samples, begin_ns, end_ns = database.execute(
            "SELECT sum(samples), min(at_ns), max(at_ns) FROM commits"
        ).fetchone()
        evaluations = database.execute(
            "SELECT c.at_ns / 1e9, e.accuracy FROM evaluations e JOIN commits c USING (version) ORDER BY version"
        ).fetchall()
    met = [at_s for at_s, accuracy in evaluations if accuracy >= 0.40]
    return {
        "rate": samples / (end_ns - begin_ns) * 1e9,
        "to_target_s": met[0] if met else float("nan"),
        "accuracy": 100 * evaluations[-1][1],
    }


def train(options: argparse.Namespace, policy: str, place: str, seed: int, live: bool) -> dict[str, float]:
    program = options.program.resolve()
    sets = [*PLACES[place], f"sync.policy={policy}"]
    mbit = options.mbit // options.slower
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        runs, port, job = folder / "runs", free_port(), folder / "job.toml"
        # The weights have a host of their own, before the others, or a part lies on each.
        before = 0 if place == "beside" else 1
        count = len(PACES_MS) + before
        devices = [DEVICE.format(pace_ms=pace * options.slower, host=before + i) for i, pace in enumerate(PACES_MS)]
        job.write_text(
            JOB.format(
                hosts=count,
                runs=runs,
                seed=seed,
                data=options.data.resolve(),
                gbps=PAYLOAD * mbit / 1000,
                epochs=options.epochs,
                batch=options.batch,
                model=options.model,
            )
            + "".join(devices)
        )
        if not live:
            words = [program, "train", job, "--virtual"]
            for one in sets:
                words += ["--set", one]
            environment = dict(os.environ, OMP_NUM_THREADS="1")
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
            return figures(runs)
        certs = make_certs(program, folder, "central")
        reach = [f"network.listen=0.0.0.0:{port}", f"network.certs={certs}"]
        hosts = Hosts(count, mbit)
        try:
            hosts.shape_arrivals(mbit)
            with nodes(hosts, program, job, port, sets + reach) as started:
                wait_for_first_commit(started[0], runs, folder / "log0")
                started[0].wait()
            said = (folder / "log0").read_text()
            if options.keep:
                shutil.copytree(folder, options.keep / "-".join([*sets, str(seed)]))
            if "paces not held" in said:
                print("  a device could not hold its pace: the machine is busy", flush=True)
            return figures(runs)
        except NotStartedError as error:
            raise SystemExit(f"central: {error}") from error
        finally:
            hosts.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench central", description=__doc__)
    rows = ["bsp:servers", "asp:servers", "ssp.3:servers", "cgp:group", "bsp:group", "cgp:servers", "cgp:beside"]
    parser.add_argument("--rows", nargs="+", default=rows, help="policy:place; ssp.3 is ssp:3")
    parser.add_argument("--seeds", type=int, default=1, help="of each")
    parser.add_argument("--epochs", type=float, default=1.5)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--model", default="alexnet-small")
    parser.add_argument("--mbit", type=int, default=1000, help="of every host's link, each way, Mb/s")
    parser.add_argument("--slower", type=int, default=1, help="how many times slower paces and links are")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/cifar10"), help="CIFAR-10")
    parser.add_argument("--program", type=Path, default=Path("build/release/paceline"))
    parser.add_argument("--only", choices=["live", "virtual"])
    parser.add_argument("--keep", type=Path, help="a folder for the live runs")
    parser.add_argument("--json", type=Path, help="a file that gets a line for each training")
    options = parser.parse_args()
    print(f"{'':22}{'samples/s':>26}{'to 40 % (s)':>26}{'accuracy (%)':>22}", flush=True)
    print(
        f"{'policy, sums':16} seed {'live':>9}{'virtual':>9}{'':8}{'live':>9}{'virtual':>9}{'':8}live virtual",
        flush=True,
    )
    for row in options.rows:
        policy, place = row.replace(".", ":").rsplit(":", 1)
        for seed in range(1, options.seeds + 1):
            nothing = {"rate": float("nan"), "to_target_s": float("nan"), "accuracy": float("nan")}
            live = train(options, policy, place, seed, True) if options.only != "virtual" else nothing
            virtual = train(options, policy, place, seed, False) if options.only != "live" else nothing
            cells = ""
            for key in ("rate", "to_target_s"):
                off = 100 * (live[key] / virtual[key] - 1)
                cells += f"{live[key]:9.1f}{virtual[key]:9.1f}{off:+7.1f}%"
            cells += f"{live['accuracy']:8.1f}{virtual['accuracy']:8.1f}"
            print(f"{row:16} {seed:4} {cells}", flush=True)
            if options.json:
                with options.json.open("a") as file:
                    print(json.dumps({"row": row, "seed": seed, "live": live, "virtual": virtual}), file=file)


if __name__ == "__main__":
    main()
