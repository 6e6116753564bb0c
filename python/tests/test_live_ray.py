"""Jobs on a real Ray cluster of several nodes on this machine, of which some are killed.

They need the packages ray[default,tune] and optuna (750 MB) in the Python that runs them: docs/schedulers.md.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_member import PACKAGE
from live_job import needs_paceline, replay

ray = pytest.importorskip("ray", reason="ray cannot be imported: pip install 'ray[default,tune]' optuna")

from ray.cluster_utils import Cluster  # noqa: E402

from paceline import PacelineError  # noqa: E402
from paceline.integrations.ray import Result, run  # noqa: E402

pytestmark = needs_paceline

SAMPLES = 256

PROGRAM = f"""
import os, sys, time
import torch
import torch.nn.functional as F
from torch import nn
import paceline

torch.manual_seed(3)
x = torch.randn({SAMPLES}, 6, generator=torch.Generator().manual_seed(5))
y = (x[:, 0] > 0).long()
model = nn.Linear(6, 2)
epochs, go = int(sys.argv[1]), sys.argv[2]  # the file `go` ends the pauses

def validate():
    return {{"loss": F.cross_entropy(model(x), y), "accuracy": (model(x).argmax(1) == y).float().mean()}}

job = paceline.join(model, torch.utils.data.TensorDataset(x, y), optimizer=torch.optim.SGD(model.parameters(), 0.1),
                    evaluate=validate, batch_size=8, epochs=epochs)
for inputs, targets in job:
    if not os.path.exists(go):
        time.sleep(0.1)
    loss = F.cross_entropy(model(inputs), targets)
    loss.backward()
    job.step(loss)
"""


class Nodes:
    """A Ray cluster to which tests add nodes of their own."""

    def __init__(self) -> None:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(PACKAGE), os.environ.get("PYTHONPATH")]))
        os.environ["OMP_NUM_THREADS"] = "1"
        self._cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        ray.init(address=self._cluster.address)
        self._names = (f"nodes{number}" for number in itertools.count())
        self.name = ""

    def begin(self, count: int) -> dict[str, float]:
        """Adds nodes that only this test asks for; returns what it asks for."""
        self.name = next(self._names)
        for _ in range(count):
            self.add()
        return {"CPU": 1, self.name: 1}

    def add(self) -> None:
        for more in (3, 2, 1, 0):  # on a busy machine Ray's own patience with a new node may be too short
            try:
                self._cluster.add_node(num_cpus=1, resources={self.name: 1}, object_store_memory=80_000_000)
                return
            except Exception:
                if more == 0:
                    raise

    def kill_host(self, rank: int) -> None:
        groups = ray.util.placement_group_table().values()
        [group] = [one for one in groups if one["state"] == "CREATED"]
        name = group["bundles_to_node_id"][rank]
        [node] = [one for one in self._cluster.worker_nodes if one.node_id == name]
        self._cluster.remove_node(node, allow_graceful=False)

    def end(self) -> None:
        ray.shutdown()
        self._cluster.shutdown()


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    made = Nodes()
    yield made
    made.end()


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent(PROGRAM))
    return str(path)


def samples_of_kept_commits(path: Path) -> list[tuple[int, int, int]]:
    with sqlite3.connect(path / "journal.sqlite") as journal:
        return sorted(
            journal.execute(
                "SELECT epoch, begin, end FROM members JOIN kept_commits USING (seq) WHERE begin IS NOT NULL"
            ).fetchall()
        )


def expect_whole(tmp_path: Path, result: Result, epochs: int) -> None:
    """The run is over, each sample of each epoch was committed once, and a replay gives the same orders."""
    assert result.metrics["finished"] and result.metrics["samples"] == epochs * SAMPLES
    seen = [
        (epoch, position)
        for epoch, begin, end in samples_of_kept_commits(Path(result.path))
        for position in range(begin, end)
    ]
    assert seen == [(epoch, position) for epoch in range(epochs) for position in range(SAMPLES)]
    replay(tmp_path, Path(result.path))


def test_a_job_on_two_nodes(nodes: Nodes, tmp_path: Path, program: str) -> None:
    told: list[dict[str, Any]] = []
    result = run(
        program,
        ["3", str(tmp_path)],
        hosts=2,
        resources_per_host=nodes.begin(2),
        settings={"sync.policy": "ssp:3"},
        storage_path=tmp_path / "runs",
        report=told.append,
    )
    expect_whole(tmp_path, result, 3)
    assert [one["samples"] for one in told] == [SAMPLES, 2 * SAMPLES, 3 * SAMPLES]
    assert result.metrics["accuracy"] > 0.5 and list(result.metrics_dataframe["loss"]) == [
        one["loss"] for one in told
    ]
    with result.checkpoint.as_directory() as folder:
        assert os.listdir(folder) == ["model.safetensors"]


def attempts(runs: Path) -> int:
    [path] = runs.glob("*/journal.sqlite")
    with sqlite3.connect(path) as journal:
        return int(journal.execute("SELECT max(attempt) FROM attempts").fetchone()[0])


def trained_through_a_loss(nodes: Nodes, tmp_path: Path, program: str, another: bool, patience_s: float) -> Result:
    """A run whose second node is killed after the first epoch."""
    runs, go = tmp_path / "runs", tmp_path / "go"
    told: list[dict[str, Any]] = []

    def report(metrics: dict[str, Any]) -> None:
        told.append(metrics)
        if len(told) == 1:
            nodes.kill_host(1)
            if another:
                nodes.add()
        elif attempts(runs) > 1:
            go.touch()

    result = run(
        program,
        ["6", str(go)],
        hosts=2,
        resources_per_host=nodes.begin(2),
        settings={"cluster.host_patience_s": patience_s},
        storage_path=runs,
        report=report,
    )
    expect_whole(tmp_path, result, 6)
    assert attempts(runs) > 1
    return result


def test_a_node_is_killed_and_another_one_comes(nodes: Nodes, tmp_path: Path, program: str) -> None:
    result = trained_through_a_loss(nodes, tmp_path, program, another=True, patience_s=300)
    assert result.metrics["replicas_live"] == 2


def test_a_node_is_killed_and_no_other_one_comes(nodes: Nodes, tmp_path: Path, program: str) -> None:
    result = trained_through_a_loss(nodes, tmp_path, program, another=False, patience_s=8)
    assert result.metrics["replicas_live"] == 1


@pytest.mark.parametrize(
    "settings, resources, said",
    [
        ({}, {"CPU": 1000}, "Ray had no 1 node with {'CPU': 1000} free on each within 1 s; it has "),
        ({"optimizer.lr": "fast"}, {"CPU": 1}, "host 0 "),
    ],
)
def test_one_line_says_what_is_wrong(
    nodes: Nodes, tmp_path: Path, program: str, settings: dict[str, Any], resources: dict[str, float], said: str
) -> None:
    of_nodes = nodes.begin(1)
    with pytest.raises(PacelineError) as raised:
        run(
            program,
            ["1", str(tmp_path)],
            resources_per_host={**of_nodes, **resources},
            settings=settings,
            storage_path=tmp_path / "runs",
            start_limit_s=1 if resources["CPU"] > 1 else 600,
        )
    assert said in str(raised.value) and "\n" not in str(raised.value)


def test_a_program_that_no_node_has(nodes: Nodes, tmp_path: Path) -> None:
    with pytest.raises(PacelineError, match=r"^node .*: there is no nobody\.py in ") as raised:
        run("nobody.py", resources_per_host=nodes.begin(1), storage_path=tmp_path)
    assert "\n" not in str(raised.value)
