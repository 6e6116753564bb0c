"""A script that a person starts becomes `paceline run` of the same script."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fake_member import PACKAGE
from scripts import HEAD

SCRIPT = HEAD + "print('before')\njob = paceline.join(Net(), Points())\nprint('not reached')\n"


def without_paceline() -> dict[str, str]:
    """The environment of somebody who has not said where it is."""
    return {key: value for key, value in os.environ.items() if key != "PACELINE"}


def start(folder: Path, command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**without_paceline(), "PYTHONPATH": str(PACKAGE), "PATH": "/usr/bin:/bin", **environment}
    env.pop("PACELINE_PROGRAM_FD", None)
    return subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=120)


def stand_in(path: Path, name: str = "paceline") -> Path:
    path.mkdir(exist_ok=True)
    executable = path / name
    executable.write_text('#!/bin/sh\necho "it is $0"; for a in "$@"; do echo "[$a]"; done; exit 7\n')
    executable.chmod(0o755)
    return executable


def test_it_becomes_paceline_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    found = stand_in(tmp_path / "bin")
    done = start(tmp_path, [sys.executable, "train.py", "--lr", "a b"], PATH=f"{found.parent}:/usr/bin:/bin")
    assert done.returncode == 7, done.stderr
    expected = ["before", f"it is {found}", "[run]", "[--python]", f"[{os.path.abspath(sys.executable)}]"]
    assert done.stdout.splitlines() == [*expected, f"[{tmp_path / 'train.py'}]", "[--]", "[--lr]", "[a b]"]


def test_its_path_may_be_named(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    named = stand_in(tmp_path / "elsewhere", "paceline-1")
    done = start(tmp_path, [sys.executable, "train.py"], PACELINE=str(named))
    assert done.returncode == 7 and f"it is {named}" in done.stdout


def test_without_an_executable(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    done = start(tmp_path, [sys.executable, "train.py"])
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert "set PACELINE to its path" in done.stderr and "not reached" not in done.stdout


def test_where_there_is_no_script(tmp_path: Path) -> None:
    done = start(tmp_path, [sys.executable, "-c", SCRIPT])
    assert done.returncode == 2 and "write the program to a file" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("named", ["project.train", "project"])
def test_a_module(tmp_path: Path, named: str) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "train.py").write_text(SCRIPT)
    (tmp_path / "project" / "__main__.py").write_text(SCRIPT)
    found = stand_in(tmp_path / "bin")
    command = [sys.executable, "-m", named, "-m", "resnet"]
    done = start(tmp_path, command, PATH=f"{found.parent}:/usr/bin:/bin")
    assert done.returncode == 7, done.stderr
    expected = ["before", f"it is {found}", "[run]", "[--python]", f"[{os.path.abspath(sys.executable)}]"]
    assert done.stdout.splitlines() == [*expected, "[-m]", f"[{named}]", "[--]", "[-m]", "[resnet]"]


def test_in_a_process_that_the_program_started(tmp_path: Path) -> None:
    text = HEAD + (
        "import multiprocessing\n"
        "def child():\n    paceline.join(Net(), Points())\n"
        "process = multiprocessing.get_context('fork').Process(target=child)\nprocess.start()\nprocess.join()\n"
    )
    (tmp_path / "train.py").write_text(text)
    done = start(tmp_path, [sys.executable, "train.py"])
    assert '`if __name__ == "__main__":`' in done.stderr


def test_a_descriptor_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    env = {**os.environ, "PYTHONPATH": str(PACKAGE), "PACELINE_PROGRAM_FD": "93"}
    done = subprocess.run([sys.executable, "train.py"], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "PACELINE_PROGRAM_FD=93 names no open descriptor" in done.stderr


def test_importing_it_needs_no_torch(tmp_path: Path) -> None:
    done = start(tmp_path, [sys.executable, "-c", "import paceline, sys; sys.exit('torch' in sys.modules)"])
    assert done.returncode == 0, done.stderr
