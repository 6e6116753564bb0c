"""A script that a person starts becomes `paceline run` of the same script."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from fake_member import PACKAGE
from scripts import HEAD

SCRIPT = HEAD + "print('before')\njob = paceline.join(Net(), Points())\nprint('not reached')\n"


OPTIONS = ("PYTHONOPTIMIZE", "PYTHONDEVMODE", "PYTHONUTF8", "PYTHONWARNINGS")


def without_paceline() -> dict[str, str]:
    """The environment of somebody who has not said where it is."""
    return {key: value for key, value in os.environ.items() if key != "PACELINE"}


def start(folder: Path, command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**without_paceline(), "PYTHONPATH": str(PACKAGE), "PATH": "/usr/bin:/bin", **environment}
    for name in ("PACELINE_PROGRAM_FD", *OPTIONS):
        env.pop(name, None)
    return subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=120)


def stand_in(path: Path, name: str = "paceline") -> Path:
    path.mkdir(exist_ok=True)
    executable = path / name
    executable.write_text('#!/bin/sh\necho "it is $0"; for a in "$@"; do echo "[$a]"; done; exit 7\n')
    executable.chmod(0o755)
    return executable


def test_a_test_of_pytest_is_not_replaced(tmp_path: Path) -> None:
    """Its summary would be lost, and each worker would run all tests once more."""
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "test_train.py").write_text("def test_it():\n    import train\n\n\ndef test_another():\n    pass\n")
    found = stand_in(tmp_path / "bin")
    done = start(tmp_path, [sys.executable, "-m", "pytest", "-q"], PATH=f"{found.parent}:/usr/bin:/bin")
    assert done.returncode == 1 and "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "join() was called in a test of pytest" in done.stdout


def test_it_becomes_paceline_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    found = stand_in(tmp_path / "bin")
    done = start(tmp_path, [sys.executable, "train.py", "--lr", "a b"], PATH=f"{found.parent}:/usr/bin:/bin")
    assert done.returncode == 7, done.stderr
    expected = ["before", f"it is {found}", "[run]", "[--python]", f"[{os.path.abspath(sys.executable)}]"]
    assert done.stdout.splitlines() == [*expected, f"[{tmp_path / 'train.py'}]", "[--]", "[--lr]", "[a b]"]


def test_it_survives_a_clusters_warning_on_the_way(tmp_path: Path) -> None:
    handler = "import signal\nsignal.signal(signal.SIGUSR1, lambda *_: None)\n"
    (tmp_path / "train.py").write_text(handler + SCRIPT)
    shows = stand_in(tmp_path / "bin")
    shows.write_text("#!/bin/sh\ngrep SigIgn /proc/self/status\n")
    done = start(tmp_path, [sys.executable, "train.py"], PACELINE=str(shows))
    ignored = int(done.stdout.split()[-1], 16)
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        assert ignored >> (number - 1) & 1, number


LEAVES_BEHIND = """
import multiprocessing, multiprocessing.managers, signal, tempfile, time
def stay(stubborn, all_are_there):
    if stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    all_are_there.wait()
    time.sleep(1000)
def fail(*_):
    raise RuntimeError("a child ended")
if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    manager = multiprocessing.managers.SyncManager(ctx=context)
    manager.start()
    there = context.Barrier(3)
    children = [context.Process(target=stay, args=(daemon, there), daemon=daemon) for daemon in (True, False)]
    for child in children:
        child.start()
    there.wait()
    with open("left", "w") as file:
        print(manager._process.pid, *(child.pid for child in children), file=file)
    folder = tempfile.TemporaryDirectory()
    open("folder", "w").write(folder.name)
    signal.signal(signal.SIGCHLD, fail)
    signal.alarm(60)
    signal.setitimer(signal.ITIMER_VIRTUAL, 60)
    print("before")
    job = paceline.join(Net(), Points())
"""


def test_it_leaves_no_process_folder_or_timer_behind(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(HEAD + LEAVES_BEHIND)
    shows = tmp_path / "shows.py"
    shows.write_text(
        "#!" + sys.executable + "\nimport signal\n"
        "print([signal.getitimer(timer)[0] for timer in range(3)], signal.getsignal(signal.SIGCHLD) == 0)\n"
    )
    shows.chmod(0o755)
    done = start(tmp_path, [sys.executable, "train.py"], PACELINE=str(shows))
    assert done.returncode == 0 and done.stderr == "", done
    assert done.stdout.splitlines()[-1] == "[0.0, 0.0, 0.0] True"
    assert [pid for pid in (tmp_path / "left").read_text().split() if Path(f"/proc/{pid}").exists()] == []
    assert not Path((tmp_path / "folder").read_text()).exists()


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


@pytest.mark.parametrize("activated", [False, True])
def test_the_command_of_a_package_finds_its_own_python(tmp_path: Path, activated: bool) -> None:
    own, other = tmp_path / "venv" / "bin", tmp_path / "other"
    own.mkdir(parents=True)
    (own / "python3").symlink_to(sys.executable)
    stand_in(other, "python3")
    bundled = stand_in(tmp_path / "bundled")
    bundled.write_text('#!/bin/sh\necho "$PATH"; command -v python3; for a in "$@"; do echo "[$a]"; done\n')
    started = (
        "import pathlib, sys\nfrom paceline import executable\n"
        f"sys.executable = {str(own / 'python3')!r}\n"
        f"executable.BUNDLED = pathlib.Path({str(bundled)!r})\nexecutable.main()\n"
    )
    path = f"{own if activated else other}:/usr/bin:/bin"
    done = start(tmp_path, [sys.executable, "-c", started, "train", "job.toml"], PATH=path)
    assert done.returncode == 0, done.stderr
    expected = path if activated else f"{own}:{path}"
    assert done.stdout.splitlines() == [expected, str(own / "python3"), "[train]", "[job.toml]"]


def test_where_there_is_no_script(tmp_path: Path) -> None:
    done = start(tmp_path, [sys.executable, "-c", SCRIPT])
    assert done.returncode == 2 and "write the program to a file" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_program_from_standard_input(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    done = start(tmp_path, ["/bin/sh", "-c", f"{sys.executable} - < train.py"])
    assert done.returncode == 2 and "write the program to a file" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("runs", [False, True])
def test_a_script_that_imports_the_kernel_of_jupyter_is_no_notebook(tmp_path: Path, runs: bool) -> None:
    (tmp_path / "ipykernel.py").touch()
    (tmp_path / "IPython.py").write_text(f"def get_ipython():\n    return {'object()' if runs else None}\n")
    (tmp_path / "train.py").write_text("import IPython, ipykernel\n" + SCRIPT)
    done = start(tmp_path, [sys.executable, "train.py"], PACELINE=str(stand_in(tmp_path / "bin")))
    assert ("in an interactive interpreter" in done.stderr) == runs and ("[run]" in done.stdout) != runs, done


@pytest.mark.parametrize("said", ["cat train.py | {} /dev/stdin", "{} /dev/stdin < train.py", "{} <(cat train.py)"])
def test_a_program_that_can_be_read_only_once(tmp_path: Path, said: str) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    done = start(tmp_path, ["/bin/bash", "-c", said.format(sys.executable)])
    assert done.returncode == 2 and "write the program to a file" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("moved", [False, True])
def test_a_module_that_goes_elsewhere_before_it_imports_us(tmp_path: Path, moved: bool) -> None:
    for folder in ("project", "out"):
        (tmp_path / folder).mkdir()
    more = "import sys\nsys.path.insert(0, '/usr/lib')\n" if moved else "import os\nos.chdir('out')\n"
    (tmp_path / "project" / "train.py").write_text(more + SCRIPT)
    found = stand_in(tmp_path / "bin")
    found.write_text("#!/bin/sh\npwd\n")
    done = start(tmp_path, [sys.executable, "-m", "project.train"], PATH=f"{found.parent}:/usr/bin:/bin")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1] == str(tmp_path)


@pytest.mark.parametrize("said", ["code/train.py", "./code/train.py", "out/../code/train.py"])
def test_a_program_that_goes_elsewhere_before_it_imports_us(tmp_path: Path, said: str) -> None:
    for folder in ("code", "out"):
        (tmp_path / folder).mkdir()
    (tmp_path / "code" / "train.py").write_text("import os\nos.chdir('out')\n" + SCRIPT)
    found = stand_in(tmp_path / "bin")
    found.write_text('#!/bin/sh\npwd\nfor a in "$@"; do echo "[$a]"; done\n')
    done = start(tmp_path, [sys.executable, said], PATH=f"{found.parent}:/usr/bin:/bin")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[1] == str(tmp_path)
    assert os.path.samefile(lines[-2].strip("[]"), tmp_path / "code" / "train.py")


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


def test_a_script_that_a_module_runs(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    found = stand_in(tmp_path / "bin")
    command = [sys.executable, "-m", "cProfile", "train.py", "--lr", "0.1"]
    done = start(tmp_path, command, PATH=f"{found.parent}:/usr/bin:/bin")
    assert done.stdout.splitlines()[-4:] == [f"[{tmp_path / 'train.py'}]", "[--]", "[--lr]", "[0.1]"], done
    assert done.stderr.startswith("paceline: the debugger or profiler of this process ends here")


def test_options_of_python_hold_in_the_workers(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    shows = stand_in(tmp_path / "bin")
    shows.write_text("#!/bin/sh\nenv\n")

    def said(*options: str) -> dict[str, str]:
        done = start(tmp_path, [sys.executable, *options, "train.py"], PACELINE=str(shows))
        assert done.stderr == "", done
        both = [line.partition("=") for line in done.stdout.splitlines()]
        return {name: value for name, _, value in both if name in OPTIONS}

    assert said() == {}
    given = said("-OO", "-W", "ignore::UserWarning", "-W", "default::FutureWarning", "-X", "utf8")
    warnings = "ignore::UserWarning,default::FutureWarning"
    assert given == {"PYTHONOPTIMIZE": "2", "PYTHONUTF8": "1", "PYTHONWARNINGS": warnings}
    assert said("-X", "dev", "-W", "ignore")["PYTHONDEVMODE"] == "1"


@pytest.mark.parametrize("named", ["project", "project.zip"])
def test_a_folder_or_an_archive(tmp_path: Path, named: str) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "__main__.py").write_text(SCRIPT)
    shutil.make_archive(str(tmp_path / "project"), "zip", tmp_path / "project")
    found = stand_in(tmp_path / "bin")
    done = start(tmp_path, [sys.executable, named], PATH=f"{found.parent}:/usr/bin:/bin")
    assert done.returncode == 7, done.stderr
    program = done.stdout.splitlines()[-2]
    expected = tmp_path / named if named.endswith(".zip") else tmp_path / named / "__main__.py"
    assert program == f"[{expected}]"


def test_a_program_that_goes_elsewhere_and_eats_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        HEAD + "import os\nos.makedirs('out')\nos.chdir('out')\nsys.argv.pop(1)\npaceline.join(Net(), Points())\n"
    )
    found = stand_in(tmp_path / "bin")
    found.write_text('#!/bin/sh\npwd\nfor a in "$@"; do echo "[$a]"; done\n')
    done = start(tmp_path, [sys.executable, "train.py", "0.1", "more"], PATH=f"{found.parent}:/usr/bin:/bin")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == str(tmp_path) and lines[-4:] == [f"[{tmp_path / 'train.py'}]", "[--]", "[0.1]", "[more]"]


SPLIT = HEAD.replace("torch.manual_seed(3)", "{seeded}") + (
    "import numpy\n"
    "print(torch.rand(1).item(), random.random(), numpy.random.rand())\n"
    "sys.stdout.flush()\n"
    "child = __import__('subprocess').run([sys.executable, '-c', 'import os; print(os.environ.get(\"PACELINE_SEED\"))'])\n"
)


@pytest.mark.parametrize("seeded", [False, True])
def test_what_a_started_program_draws_is_seeded(tmp_path: Path, seeded: bool) -> None:
    (tmp_path / "train.py").write_text(SPLIT.format(seeded="torch.manual_seed(3)" if seeded else ""))

    def drawn(**environment: str) -> list[str]:
        done = start(tmp_path, [sys.executable, "train.py"], **environment)
        assert done.returncode == 0, done.stderr
        numbers, left = done.stdout.splitlines()
        assert left == "None"
        return numbers.split()

    one, same, other, free = drawn(PACELINE_SEED="5"), drawn(PACELINE_SEED="5"), drawn(PACELINE_SEED="6"), drawn()
    assert one == same and one[1:] != other[1:] and one[1:] != free[1:]
    assert (one[0] == other[0]) == seeded


def test_a_seed_that_came_before_the_import_stays(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\ntorch.manual_seed(11)\nimport paceline\nprint(torch.initial_seed())\n"
    )
    done = start(tmp_path, [sys.executable, "train.py"], PACELINE_SEED="5")
    assert done.stdout.split() == ["11"], done.stderr


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_in_a_process_that_the_program_started(tmp_path: Path, method: str) -> None:
    text = HEAD + (
        "import multiprocessing\n"
        "def child():\n    paceline.join(Net(), Points())\n"
        "if __name__ == '__main__':\n"
        f"    process = multiprocessing.get_context('{method}').Process(target=child)\n"
        "    process.start()\n    process.join()\n"
    )
    (tmp_path / "train.py").write_text(text)
    done = start(tmp_path, [sys.executable, "train.py"])
    assert (
        "started; call it in the program itself, which `paceline run --devices N` starts once for each" in done.stderr
    )


def test_a_descriptor_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    env = {**os.environ, "PYTHONPATH": str(PACKAGE), "PACELINE_PROGRAM_FD": "93"}
    done = subprocess.run([sys.executable, "train.py"], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "PACELINE_PROGRAM_FD=93 names no open descriptor" in done.stderr


def test_a_program_that_a_worker_has_started_starts_another_one(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "first.py").write_text(
        "import os, paceline, subprocess, sys\nsys.exit(subprocess.run([sys.executable, 'train.py']).returncode)\n"
    )
    ours, theirs = socket.socketpair()
    with ours, theirs:
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "PACELINE": str(stand_in(tmp_path / "bin"))}
        environment["PACELINE_PROGRAM_FD"] = str(theirs.fileno())
        command = [sys.executable, "first.py"]
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, pass_fds=[theirs.fileno()]
        )
    assert done.returncode == 7 and "[run]" in done.stdout, done


def test_importing_it_needs_no_torch(tmp_path: Path) -> None:
    done = start(tmp_path, [sys.executable, "-c", "import paceline, sys; sys.exit('torch' in sys.modules)"])
    assert done.returncode == 0, done.stderr
