"""Jobs on a real Ray cluster of several nodes on this machine, of which some are killed.

They need the packages ray[default,tune] and optuna (750 MB) in the Python that runs them: docs/schedulers.md.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fake_member import PACKAGE
from live_job import needs_paceline
from paused_program import PROGRAM, SAMPLES, attempts, commits, expect_whole_run
from test_live_schedulers import free_port, has_checkpoint

ray = pytest.importorskip("ray", reason="ray cannot be imported: pip install 'ray[default,tune]' optuna")

import psutil  # noqa: E402 (Ray brings it)
from ray.cluster_utils import Cluster  # noqa: E402
from ray.job_submission import JobStatus, JobSubmissionClient  # noqa: E402

from paceline import PacelineError  # noqa: E402
from paceline.integrations.ray import Result, run, trial_resources  # noqa: E402

pytestmark = needs_paceline


class Nodes:
    """A Ray cluster to which tests add nodes of their own."""

    def __init__(self) -> None:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(PACKAGE), os.environ.get("PYTHONPATH")]))
        os.environ["OMP_NUM_THREADS"] = "1"
        os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 (15 would starve them on a busy machine)
        self._cluster = Cluster()
        port = free_port()
        self._add(num_cpus=0, include_dashboard=True, dashboard_port=port)
        self.dashboard = f"http://127.0.0.1:{port}"
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
        self._add(num_cpus=1, resources={self.name: 1}, object_store_memory=80_000_000)

    def _add(self, **said: Any) -> None:
        for more in range(9, -1, -1):  # on a busy machine Ray's own patience with a new node may be too short
            try:
                self._cluster.add_node(**said)
                return
            except Exception:
                if more == 0:
                    raise

    def kill_host(self, rank: int) -> None:
        groups = ray.util.placement_group_table().values()
        [group] = [one for one in groups if one["state"] == "CREATED"]
        name = group["bundles_to_node_id"][rank]
        [node] = [one for one in self._cluster.worker_nodes if one.node_id == name]
        # All that runs there dies, as with the machine. The raylet goes first: it ends without its other processes.
        [raylet] = node.all_processes["raylet"]
        lost = psutil.Process(raylet.process.pid).children(recursive=True)
        self._cluster.remove_node(node, allow_graceful=False)
        for process in lost:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

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
    path.write_text(PROGRAM)
    return str(path)


def expect_whole(tmp_path: Path, result: Result, epochs: int) -> None:
    assert result.metrics["finished"] and result.metrics["samples"] == epochs * SAMPLES
    expect_whole_run(tmp_path, Path(result.path), epochs)


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


def trained_through_a_loss(
    nodes: Nodes, tmp_path: Path, program: str, another: bool, patience_s: float, epochs: int = 6
) -> Result:
    """A run whose second node is killed after ten commits. `another`: whether another one comes."""
    runs, go = tmp_path / "runs", tmp_path / "go"
    kill = (lambda: commits(runs) >= 10, lambda: nodes.kill_host(1))
    steps = [kill, *([(lambda: True, nodes.add)] if another else []), (lambda: attempts(runs) > 1, go.touch)]
    said: dict[str, Any] = {"hosts": 2, "resources_per_host": nodes.begin(2), "storage_path": runs}
    said["settings"] = {"cluster.host_patience_s": patience_s}
    with ThreadPoolExecutor(1) as pool:  # Ray adds nodes in the main thread only
        trained = pool.submit(run, program, [str(epochs), str(go), "blind"], **said)
        while_it_trains(trained, *steps)
        result = trained.result()
    expect_whole(tmp_path, result, epochs)
    assert attempts(runs) > 1
    return result


def test_a_node_is_killed_and_another_one_comes(nodes: Nodes, tmp_path: Path, program: str) -> None:
    result = trained_through_a_loss(nodes, tmp_path, program, another=True, patience_s=300)
    assert result.metrics["replicas_live"] == 2


def test_a_node_is_killed_and_no_other_one_comes(nodes: Nodes, tmp_path: Path, program: str) -> None:
    result = trained_through_a_loss(nodes, tmp_path, program, another=False, patience_s=8)
    assert result.metrics["replicas_live"] == 1


def wait_until(true: Callable[[], bool], wait_s: float = 300) -> None:
    deadline = time.monotonic() + wait_s
    while not true():
        assert time.monotonic() < deadline, f"it did not come true within {wait_s} s"
        time.sleep(0.1)


def processes_of(runs: Path, *words: str) -> list[psutil.Process]:
    """The processes with these words, and one of these runs, in their commands."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        said = process.info["cmdline"] or []
        if any(str(runs) in word for word in said) and set(words) <= set(said):
            found.append(process)
    return found


def any_process_of(runs: Path) -> bool:
    return bool(processes_of(runs))


def run_folders(runs: Path) -> list[Path]:
    return [journal.parent for journal in runs.glob("**/journal.sqlite")]


def while_it_trains(trained: Any, *steps: tuple[Callable[[], bool], Callable[[], Any]]) -> None:
    """Does each step when its condition has come true, while the run goes on."""
    for has_come, do in steps:
        while not has_come() and not trained.done():
            time.sleep(0.1)
        do()


def kill_command(runs: Path, rank: int) -> None:
    [node] = processes_of(runs, "node", "--rank", str(rank))
    node.kill()


def test_a_resumed_run_is_resumed_again_when_its_first_host_is_killed(
    nodes: Nodes, tmp_path: Path, program: str
) -> None:
    runs, go, epochs = tmp_path / "runs", tmp_path / "go", 4
    said: dict[str, Any] = {"hosts": 2, "resources_per_host": nodes.begin(2), "storage_path": runs, "resume": "auto"}
    said["settings"] = {"checkpoint.every_epochs": 0.5, "cluster.host_patience_s": 300}

    def stop(metrics: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(program, [str(epochs), str(go), "stand-still"], report=stop, **said)
    assert attempts(runs) == 1 and has_checkpoint(runs)
    told: list[dict[str, Any]] = []
    with ThreadPoolExecutor(1) as pool:
        trained = pool.submit(run, program, [str(epochs), str(go), "stand-still"], report=told.append, **said)
        while_it_trains(
            trained,
            (lambda: attempts(runs) > 1, lambda: kill_command(runs, 0)),
            (lambda: attempts(runs) > 2, go.touch),
        )
        result = trained.result()
    assert [Path(result.path)] == run_folders(runs) and attempts(runs) == 3
    assert result.metrics["samples"] == epochs * SAMPLES
    # Evaluations from before are in the history, and are not reported once more.
    samples = [one["samples"] for one in result.history]
    assert samples[0] == SAMPLES and samples[-1] == epochs * SAMPLES and told == result.history[1:]


def test_two_runs_of_one_name_keep_to_their_own_folders(nodes: Nodes, tmp_path: Path, program: str) -> None:
    runs, go = tmp_path / "runs", tmp_path / "go"
    resources = nodes.begin(2)
    with ThreadPoolExecutor(2) as pool:
        made = [
            pool.submit(run, program, [str(epochs), str(go)], resources_per_host=resources, storage_path=runs)
            for epochs in (1, 3)
        ]
        while len(run_folders(runs)) < 2 and not any(one.done() for one in made):
            time.sleep(0.1)
        go.touch()
        short, long = (one.result() for one in made)
    assert {Path(short.path), Path(long.path)} == set(run_folders(runs))
    assert [len(one.history) for one in (short, long)] == [1, 3]


def test_a_node_with_the_only_run_folder_is_lost(
    nodes: Nodes, tmp_path: Path, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run does not begin anew on another node, as if nothing had been trained."""
    monkeypatch.setattr("paceline.integrations.ray.runs_dir", lambda path: str(tmp_path / "runs"))
    runs, go, resources = tmp_path / "runs", tmp_path / "go", nodes.begin(1)

    def lose() -> None:
        nodes.kill_host(0)
        for folder in run_folders(runs):
            folder.rename(tmp_path / "lost")
        nodes.add()

    with ThreadPoolExecutor(1) as pool:
        trained = pool.submit(run, program, ["2", str(go), "blind"], resources_per_host=resources)
        while_it_trains(trained, (lambda: commits(runs) >= 10, lose))
        with pytest.raises(
            PacelineError, match=r"the run folder .*/train-.* is on the node that is lost; write storage_p"
        ):
            trained.result()


def test_the_first_host_is_lost_before_anything_is_trained(nodes: Nodes, tmp_path: Path, program: str) -> None:
    slow = Path(program).with_name("slow.py")
    slow.write_text(Path(program).read_text().replace("job = ", "time.sleep(8)\njob = "))
    runs = tmp_path / "runs"
    with ThreadPoolExecutor(1) as pool:
        trained = pool.submit(
            run, slow, ["1", str(tmp_path), "blind"], hosts=2, resources_per_host=nodes.begin(2), storage_path=runs
        )
        while_it_trains(
            trained, (lambda: bool(run_folders(runs)), lambda: nodes.kill_host(0)), (lambda: True, nodes.add)
        )
        result = trained.result()
    expect_whole_run(tmp_path, Path(result.path), 1)


def test_a_submitted_job_is_stopped_and_goes_on(nodes: Nodes, tmp_path: Path, program: str) -> None:
    runs, go, epochs = tmp_path / "runs", tmp_path / "go", 4
    script = f"""
        import paceline.integrations.ray
        paceline.integrations.ray.run("{program}", ["{epochs}", "{go}", "blind"], resources_per_host={nodes.begin(1)},
                                      settings={{"checkpoint.every_epochs": 0.5}}, storage_path="{runs}",
                                      resume="auto")
    """
    (tmp_path / "submit.py").write_text(textwrap.dedent(script))
    client = JobSubmissionClient(nodes.dashboard)

    # Nodes on one machine share a folder for what is sent, and a working_dir was gone again before the job used it.
    def submit() -> str:
        for _ in range(300):
            with contextlib.suppress(RuntimeError):  # the dashboard may not know yet who takes jobs
                return client.submit_job(entrypoint=f"{sys.executable} {tmp_path}/submit.py")
            time.sleep(1)
        pytest.fail("nobody took the job")

    first = submit()
    wait_until(lambda: has_checkpoint(runs) or client.get_job_status(first).is_terminal())
    assert any_process_of(runs), client.get_job_logs(first)
    assert client.stop_job(first)
    wait_until(lambda: client.get_job_status(first) == JobStatus.STOPPED and not any_process_of(runs))
    trained = commits(runs)
    go.touch()
    second = submit()
    wait_until(lambda: client.get_job_status(second).is_terminal())
    assert client.get_job_status(second) == JobStatus.SUCCEEDED, client.get_job_logs(second)
    [one] = runs.glob("*/journal.sqlite")
    expect_whole_run(tmp_path, one.parent, epochs)
    assert attempts(runs) == 2 and 0 < trained < commits(runs)


@pytest.mark.parametrize(
    "settings, resources, said",
    [
        ({}, {"CPU": 1000}, " free on each within 1 s; it has "),
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


def test_trials_share_a_cluster(nodes: Nodes, tmp_path: Path, program: str) -> None:
    """Ray Tune has the metrics of each evaluation, and the weights."""
    from ray import tune

    resources = nodes.begin(2)

    def trial(config: dict[str, Any]) -> None:
        arguments = [str(config["epochs"]), str(tmp_path)]
        run(program, arguments, hosts=2, resources_per_host=resources, storage_path=tmp_path / "runs")

    wanted = tune.with_resources(trial, trial_resources(2, resources))
    space = {"epochs": tune.grid_search([1, 2])}
    stored = tune.RunConfig(storage_path=str(tmp_path / "trials"))
    results = tune.Tuner(wanted, param_space=space, run_config=stored).fit()
    assert [result.metrics["samples"] for result in results] == [SAMPLES, 2 * SAMPLES]
    assert all(result.error is None and os.listdir(result.checkpoint.path) for result in results)
    # One for each evaluation, and one at the end with the checkpoint.
    assert [len(result.metrics_dataframe) for result in results] == [2, 3]
