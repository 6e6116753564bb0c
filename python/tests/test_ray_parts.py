"""The parts of a job on a Ray cluster that need no Ray."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from paceline import PacelineError
from paceline.integrations.ray_host import Host, Look, Unfinished
from paceline.integrations.ray_plan import Plan, check_settings, runs_dir, toml
from paceline.integrations.ray_result import History


def plan(**changed: Any) -> Plan:
    said: dict[str, Any] = {
        "name": "train",
        "program": "train.py",
        "args": ["--rate", "0.1"],
        "folder": "/job",
        "hosts": 2,
        "devices_per_host": 4,
        "runs_dir": "/shared",
        "shared": True,
        "port": 7500,
        "secrets": "/tmp/secret",
    }
    return Plan(**{**said, **changed})


def test_the_words_of_a_host() -> None:
    words = plan(settings={"sync.policy": "cgp"}).words(1, "10.0.0.1")
    assert words[:7] == ["node", "--rank", "1", "--hosts", "2", "--coordinator", "10.0.0.1:7500"]
    sets = words[8::2]
    assert words[7::2] == ["--set"] * len(sets)
    assert 'program.args=["--rate", "0.1"]' in sets and "device=[{count = 8}]" in sets
    assert "cluster.shared_folder=true" in sets and 'network.certs="/tmp/secret/train"' in sets
    assert 'network.token_file="/tmp/secret/train/token"' in sets  # a resumed run has named another one
    assert sets[-1] == 'sync.policy="cgp"' and 'runs_dir="/shared"' in sets


def test_hosts_without_a_shared_folder_keep_the_weights_twice() -> None:
    words = plan(shared=False).words(1, "10.0.0.1")
    assert "cluster.copies=2" in words and 'runs_dir="/shared/host1"' in words
    assert "cluster.copies=2" not in plan(shared=False, job="batch = 8").words(1, "10.0.0.1")  # the file says it


def test_a_storage_path_is_the_same_for_all_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.chdir(tmp_path)
    assert runs_dir(None) == "/home/me/ray_results/paceline"
    assert runs_dir("~/runs") == "/home/me/runs" and runs_dir(Path("runs")) == str(tmp_path / "runs")


def test_a_run_is_begun_or_resumed_by_the_first_host() -> None:
    with_job = plan(job="batch = 8")
    assert with_job.words(0, "a")[:3] == ["node", "--new", "-"]
    assert with_job.words(0, "a", "/shared/run")[:4] == ["node", "--resume", "/shared/run", "--rank"]
    assert with_job.words(0, "a", "/shared/run", again=True)[:4] == ["node", "--resume", "/shared/run", "--again"]
    assert with_job.words(1, "a")[:3] == ["node", "-", "--rank"] and plan().words(1, "a")[:2] == ["node", "--rank"]


@pytest.mark.parametrize(
    "job, says",
    [
        ('[program]\nrun = "a.py"\npython = "/x"', True),
        ('program.python = "/x"', True),
        ('[ program ]\n  python="/x"', True),
        ('[program]\nrun = "a.py"\n[sync]\npython = 1', False),
        ("epochs = 1", False),
    ],
)
def test_a_job_may_name_the_python(job: str, says: bool) -> None:
    assert plan(job=job).says_python == says
    assert plan(settings={"program.python": "/x"}).says_python


def test_one_host_needs_no_network() -> None:
    assert not [word for word in plan(hosts=1).words(0, "a") if word.startswith(("network.", "cluster."))]


@pytest.mark.parametrize(
    "value, text",
    [
        (True, "true"),
        ('a"b', '"a\\"b"'),
        ([1, 0.5], "[1, 0.5]"),
        ({"count": 2, "pace": "3x"}, '{count = 2, pace = "3x"}'),
        ("\U0001f600\x7f\n", '"\U0001f600\\u007f\\n"'),
        (Path("/data"), '"/data"'),
        (torch.tensor(0.5), "0.5"),
    ],
)
def test_a_value_in_a_job_file(value: Any, text: str) -> None:
    assert toml(value) == text


def snapshot(samples: int, finished: bool = False) -> dict[str, Any]:
    return {"kind": "snapshot", "samples": samples, "commits": samples, "training_loss": 1.0, "finished": finished}


def evaluation(version: int) -> dict[str, Any]:
    said = {"kind": "evaluation", "time_s": 1.0, "version": version, "samples": version, "metrics": {"f1": 0.5}}
    return {**said, "loss": 2.0, "accuracy": None}


def test_two_hosts_tell_of_one_evaluation() -> None:
    history = History()
    assert not history.trained and history.last() == {"finished": False}
    [first] = history.add([snapshot(8), evaluation(8)])
    assert first["f1"] == 0.5 and first["loss"] == 2.0 and "accuracy" not in first and history.trained
    assert history.add([evaluation(8)]) == []
    [second] = history.add([evaluation(16), snapshot(16, finished=True)])
    assert [first, second] == history.evaluations
    assert history.last() == {**second, "training_loss": 1.0, "commits": 16, "finished": True}


def test_a_metric_of_steps_does_not_replace_that_of_an_evaluation() -> None:
    history = History()
    of_steps = {"f1": 0.9, "accuracy": 0.8, "version": 99.0}
    line = {**evaluation(8), "metrics": {"f1": 0.5, "samples": 3.0}, "accuracy": 0.25}
    [told] = history.add([{**snapshot(8), "training_metrics": of_steps}, line])
    for found in (told, history.last()):
        assert (found["f1"], found["accuracy"], found["version"], found["samples"]) == (0.5, 0.25, 8, 8)


def test_a_run_that_goes_back_to_a_checkpoint_loses_its_evaluations_behind_it() -> None:
    def again(version: int) -> dict[str, Any]:
        return {**evaluation(version), "time_s": 2.0, "loss": 1.5}

    history = History()
    history.add([evaluation(4), evaluation(6), evaluation(8), evaluation(10)], 1)
    [told] = history.add([again(6)], 1)
    assert (told["version"], told["loss"]) == (6, 1.5)
    assert history.add([evaluation(6), evaluation(10)], 1) == []  # the same lines once more
    assert history.add([evaluation(7), evaluation(3)], 1)  # The run goes back twice.
    assert [one["version"] for one in history.evaluations] == [3] and history.last()["version"] == 3


def test_what_another_host_tells_late_is_not_newer() -> None:
    history = History()
    history.add([evaluation(6), evaluation(8)], 1)
    assert history.add([evaluation(4), evaluation(7)], 0) == []
    assert [one["version"] for one in history.add([evaluation(9)], 0)] == [9]
    assert [one["version"] for one in history.evaluations] == [6, 8, 9]


def test_a_run_without_evaluations_has_metrics_too() -> None:
    history = History()
    history.add([{**snapshot(16, finished=True), "time_s": 2.0}])
    assert history.last() == {"samples": 16, "time_s": 2.0, "training_loss": 1.0, "commits": 16, "finished": True}


STAND_IN = """#!{python}
import os, sys
text = sys.stdin.read()
print("the job is " + text, "in", os.getcwd(), file=sys.stderr)
print("run: {run}", file=sys.stderr)
print(sys.argv[-1], file=sys.stderr)
print("host 1 was given up, and the run goes on without it", file=sys.stderr)
sys.exit(2)
"""

RUN = "train-20261128T085013.193Z-bsp"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A host whose executable says what it was given."""
    executable = tmp_path / "stand-in"
    executable.write_text(STAND_IN.format(python=sys.executable, run=tmp_path / "runs" / RUN))
    executable.chmod(0o700)
    monkeypatch.setattr("paceline.integrations.ray_host.find_executable", lambda: str(executable))
    (tmp_path / "train.py").touch()
    return Host("train.py", str(tmp_path), str(tmp_path / "runs"), "train")


def ended(host: Host) -> Look:
    while (look := host.look()).status is None:
        time.sleep(0.02)
    return look


def test_a_host_starts_its_command(host: Host, tmp_path: Path) -> None:
    assert host.place().problem is None and not host.look().started
    host.start(["node"], "batch = 8", str(tmp_path / "secrets"), {"token": b"x"})
    look = ended(host)
    assert look.status == 2 and look.given_up and look.said.startswith("host 1 was given up")
    token = tmp_path / "secrets" / "token"
    assert token.read_bytes() == b"x" and token.stat().st_mode & 0o777 == 0o600
    assert token.parent.stat().st_mode & 0o777 == 0o700
    host.clean(str(tmp_path / "secrets"))
    assert not token.parent.exists()


def test_a_program_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.integrations.ray_host.find_executable", lambda: "paceline")
    problem = Host("nobody.py", str(tmp_path), str(tmp_path), "nobody").place().problem
    assert problem is not None and problem.startswith(f"there is no nobody.py in {os.getcwd()}; ")


def test_a_node_without_the_executable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.integrations.ray_host.find_executable", lambda: None)
    problem = Host("nobody.py", str(tmp_path), str(tmp_path), "nobody").place().problem
    assert problem is not None and problem.startswith("the executable `paceline` is not beside this Python")


def test_metrics_are_read_once_and_in_whole_lines(host: Host, tmp_path: Path) -> None:
    run = tmp_path / "runs" / RUN
    run.mkdir(parents=True)
    (run / "leader").write_text("1 10.0.0.2:7500\n")
    known = str(run)
    assert host.look(known).run == known and host.look(known).metrics == []
    line = json.dumps(snapshot(8))
    (run / "metrics.jsonl").write_text(line + "\n" + line[:9])
    look = host.look(known)
    assert look.run == known and (look.led_by, look.leader) == (1, "10.0.0.2:7500") and look.metrics == [snapshot(8)]
    with (run / "metrics.jsonl").open("a") as file:
        file.write(line[9:] + "\n")
    again = host.look(known, look.read)
    assert again.metrics == [snapshot(8)] and host.look(known, again.read).metrics == []


def test_of_many_snapshots_those_before_evaluations_are_told(host: Host, tmp_path: Path) -> None:
    lines = [
        snapshot(1),
        snapshot(2),
        evaluation(2),
        snapshot(3),
        snapshot(4),
        evaluation(4),
        snapshot(5),
        snapshot(6),
    ]
    run = run_folder(tmp_path, RUN, *lines)
    assert host.look(str(run)).metrics == [lines[1], lines[2], lines[4], lines[5], lines[7]]
    # The package's own lines have no space behind a colon.
    with (run / "metrics.jsonl").open("a") as file:
        file.write("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in (snapshot(7), evaluation(7))))
    assert host.look(str(run)).metrics[-1] == evaluation(7)


def test_a_damaged_line_of_metrics_stops_no_run(host: Host, tmp_path: Path) -> None:
    run = run_folder(tmp_path, RUN, snapshot(8))
    with (run / "metrics.jsonl").open("a") as file:
        file.write('"kind": "evaluation" \0\n')
    assert host.look(str(run)).metrics == [snapshot(8)]
    (run / "metrics.jsonl").unlink()
    (run / "metrics.jsonl").mkdir()
    assert host.look(str(run)).metrics == []


def test_a_run_that_was_cut_short_is_found(host: Host, tmp_path: Path) -> None:
    assert host.unfinished_run() is None
    run = run_folder(tmp_path, RUN, {**snapshot(8), "total_samples": 16}, checkpoint=True)
    metrics = run / "metrics.jsonl"
    with metrics.open("a") as file:
        file.write("{")
    assert host.unfinished_run() == Unfinished(RUN, 8, str(run))
    # All samples are committed, and the last weights are not evaluated.
    metrics.write_text(json.dumps({**snapshot(16), "total_samples": 16}) + "\n")
    assert host.unfinished_run() == Unfinished(RUN, 16, str(run))
    metrics.write_text(json.dumps({**snapshot(16, finished=True), "total_samples": 16}) + "\n")
    assert host.unfinished_run() is None
    # The run was stopped before its end.
    metrics.write_text(json.dumps({**snapshot(8, finished=True), "total_samples": 16}) + "\n")
    assert host.unfinished_run() == Unfinished(RUN, 8, str(run))
    # 0: nobody knows yet how many samples there are.
    metrics.write_text(json.dumps({**snapshot(8), "total_samples": 0}) + "\n")
    assert host.unfinished_run() == Unfinished(RUN, 8, str(run))
    metrics.unlink()
    assert host.unfinished_run() == Unfinished(RUN, 0, str(run))


def test_a_run_that_was_cut_short_is_found_in_folders_of_hosts(host: Host, tmp_path: Path) -> None:
    line = {**snapshot(8), "total_samples": 16}
    run_folder(tmp_path, f"host0/{RUN}", line, checkpoint=True)
    newer = RUN.replace("2026", "2027")
    run = run_folder(tmp_path, f"host1/{newer}", line, checkpoint=True)
    assert host.unfinished_run() == Unfinished(newer, 8, str(run))


def test_a_host_dies_with_its_actor(tmp_path: Path) -> None:
    """The command of an actor that was killed does not go on without it."""
    parent = os.fork()
    if parent == 0:
        import paceline.integrations.ray_host as module

        executable = tmp_path / "sleeper"
        executable.write_text(
            f"#!/bin/sh\necho $$ > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; exec sleep 600\n"
        )
        executable.chmod(0o700)
        module.find_executable = lambda: str(executable)
        (tmp_path / "train.py").touch()
        Host("train.py", str(tmp_path), str(tmp_path / "runs"), "train").start([], "", str(tmp_path / "s"), {})
        while True:
            time.sleep(1)
    while not (tmp_path / "pid").exists():
        time.sleep(0.02)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    while _lives(int((tmp_path / "pid").read_text())):
        time.sleep(0.02)


def _lives(process: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def run_folder(host: Path, name: str, *lines: dict[str, Any], checkpoint: bool = False) -> Path:
    run = host / "runs" / name
    (run / "checkpoints" / "v000000000001").mkdir(parents=True) if checkpoint else run.mkdir(parents=True)
    (run / "job.toml").touch()
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


def test_the_metrics_of_other_runs_are_not_this_run_s(host: Host, tmp_path: Path) -> None:
    other = run_folder(tmp_path, "train-20290101T000000.000Z-bsp", evaluation(600))
    mine = run_folder(tmp_path, RUN, evaluation(8))
    assert host.look().run is None and host.look().metrics == []
    first = host.start(["node"], "", str(tmp_path / "secrets"), {})
    # On a busy machine the command may have ended already.
    assert first.run in (None, str(mine)) and [line["version"] for line in first.metrics] in ([], [8])
    look = ended(host)
    assert look.run == str(mine) and [line["version"] for line in look.metrics] == [8]
    # The command has named its folder.
    assert host.look(str(other), 10).run == str(mine) and len(host.look(str(other), 10).metrics) == 1


def test_a_host_uses_its_own_python(host: Host, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    host.start(["node"], "", str(tmp_path / "secrets"), {})
    ended(host)
    assert f'program.python="{sys.executable}"\n' in capfd.readouterr().err
    host.start(["node"], "", str(tmp_path / "secrets"), {}, says_python=True)
    ended(host)
    assert "\nnode\n" in capfd.readouterr().err


def test_a_command_that_runs_is_killed_by_the_next_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable, pids = tmp_path / "sleeper", tmp_path / "pids"
    executable.write_text(f"#!/bin/sh\necho $$ >> {pids}; exec sleep 600\n")
    executable.chmod(0o700)
    pids.touch()
    monkeypatch.setattr("paceline.integrations.ray_host.find_executable", lambda: str(executable))
    (tmp_path / "train.py").touch()
    host = Host("train.py", str(tmp_path), str(tmp_path / "runs"), "train")
    for count in (1, 2):
        host.start([], "", str(tmp_path / "s"), {})
        while pids.read_text().count("\n") < count:
            time.sleep(0.02)
    first, second = map(int, pids.read_text().split())
    assert not _lives(first) and _lives(second)
    os.kill(second, signal.SIGKILL)
    assert ended(host).status == -signal.SIGKILL


@pytest.mark.parametrize(
    "settings, said", [({"name": "x"}, "write name="), ({"runs_dir": "/x"}, "write storage_path=")]
)
def test_a_setting_that_is_an_argument_is_refused(settings: dict[str, str], said: str) -> None:
    with pytest.raises(PacelineError, match=said):
        check_settings({"sync.policy": "cgp"} | settings)


def test_a_resumed_run_has_its_earlier_evaluations() -> None:
    history = History()
    history.recall([snapshot(8), evaluation(8)])
    assert not history.trained and [one["version"] for one in history.evaluations] == [8]
    assert [one["version"] for one in history.add([evaluation(8), snapshot(16), evaluation(16)])] == [16]
    assert history.trained


def test_a_job_whose_name_begins_with_another_one_s_is_another_one(host: Host, tmp_path: Path) -> None:
    run_folder(tmp_path, "train-2f3a1_00000-20270101T000000.000Z-bsp", evaluation(500), checkpoint=True)
    assert host.unfinished_run() is None
    mine = run_folder(tmp_path, "train-20260101T000000.000Z-bsp", evaluation(8), checkpoint=True)
    assert host.unfinished_run() == Unfinished(mine.name, 0, str(mine))
