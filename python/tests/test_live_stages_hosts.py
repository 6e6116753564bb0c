"""Programs whose stages are on several hosts, which share no memory."""

from __future__ import annotations

import contextlib
import sys
import textwrap
import time
from pathlib import Path

import pytest
from chaos_hosts import ChaosHosts, committed
from live_job import needs_paceline, only_run, paceline
from test_live_stages import FOUR_BLOCKS, ONE, PROGRAM, TIED, expect_equal, pipeline, weights_of, write_job

pytestmark = needs_paceline

ALONE = ("--set", "evaluate.enabled=false")
TWO = (*ALONE, "--set", "cluster.hosts=2")


@pytest.mark.parametrize("over", ["sealed", "tcp", "ucx"])
def test_a_pipeline_over_two_hosts_trains_to_the_weights_of_one_device(tmp_path: Path, over: str) -> None:
    links = [] if over == "sealed" else ["--set", "cluster.seal=false", "--set", f"cluster.fabric={over}"]
    one = weights_of(tmp_path / "one", PROGRAM, ONE, *ALONE)
    two = weights_of(tmp_path / "two", PROGRAM, pipeline("['w1', 'w0']", "[3]"), *TWO, *links)
    expect_equal(two, one)
    there_and_back = pipeline("['w0', 'w1', 'w2']", "[1, 5]")
    expect_equal(weights_of(tmp_path / "three", PROGRAM, there_and_back, *TWO, *links), one)


def test_tied_weights_on_two_hosts_are_trained_as_on_one_device(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    one = weights_of(tmp_path / "one", TIED, ONE, *ALONE)
    expect_equal(weights_of(tmp_path / "two", TIED, pipeline("['w0', 'w1', 'w2']", "[1, 3]"), *TWO), one)


def test_devices_of_two_hosts_share_a_stage(tmp_path: Path) -> None:
    program = PROGRAM.replace("nn.BatchNorm1d(16)", "nn.Tanh()")
    shared = pipeline("['w2', ['w0', 'w1']]", "[2]")
    one_host = weights_of(tmp_path / "one", program, shared, *ALONE)
    expect_equal(weights_of(tmp_path / "two", program, shared, *TWO), one_host)


def test_the_planner_cuts_a_program_over_two_hosts(tmp_path: Path) -> None:
    layers = 4 * "[[layer]]\nwork_ms = 1\nparameter_kb = 100\noutput_kb = 1\n"
    small = f"[[device]]\ncount = 2\nbatch = 8\nmemory_mb = 0.7\n{layers}"  # three of the four blocks at the most
    folder = tmp_path / "planned"
    job = write_job(folder, FOUR_BLOCKS, small, "parallel = 'joint'\nmicro_batch = 2\n")
    ended = paceline(folder, "train", job, *TWO)
    assert ended.returncode == 0, ended.stderr
    assert "2,880 of 2,880 samples" in ended.stdout
    assert "w0" in ended.stderr and "w1" in ended.stderr, ended.stderr
    replayed = paceline(folder, "replay", str(only_run(folder)))
    assert replayed.returncode == 0, replayed.stderr


HOSTS_JOB = """
name = "chaos"
parallel = "static"
micro_batch = 3
[network]
listen = "127.0.0.1:{port}"
certs = "certs/chaos"
[cluster]
copies = 2
[evaluate]
enabled = false
[checkpoint]
every_epochs = 0.5
[program]
run = "train.py"
python = {python!r}
[[device]]
count = 4
pace_ms = 15
[[pipeline]]
devices = ["w0", "w1"]
cuts = [3]
samples = 12
[[pipeline]]
devices = ["w2", "w3"]
cuts = [3]
samples = 12
"""


def test_a_host_that_is_killed_with_its_stages_comes_back_and_no_sample_is_lost(tmp_path: Path) -> None:
    """Each pipeline has a stage on each host, so none can compute until the host is there again."""
    hosts = ChaosHosts(tmp_path, own_disks=True)
    (tmp_path / "train.py").write_text(textwrap.dedent(PROGRAM).replace("EPOCHS", "10"))
    (tmp_path / "job.toml").write_text(HOSTS_JOB.format(port=hosts.port, python=sys.executable))
    assert paceline(tmp_path, "certs", "certs", "--job", "chaos").returncode == 0
    hosts.start()
    try:
        for _ in range(2):
            wait_for_more_commits(hosts)
            hosts.kill_host(1)
            hosts.start_again(1)
        assert hosts.exit_statuses(240) == [0, 0], hosts.said()
    finally:
        hosts.kill_all()
    assert committed(hosts.run) == 960, hosts.said()


def wait_for_more_commits(hosts: ChaosHosts) -> None:
    before: int | None = None
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and hosts.all_run():
        with contextlib.suppress(ValueError):  # the run has no folder yet
            now = committed(hosts.run)
            if before is not None and now > before:
                return
            before = now if before is None else before
        time.sleep(0.05)
    raise AssertionError(hosts.said())
