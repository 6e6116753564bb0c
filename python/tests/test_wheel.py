"""The wheel that `./dev wheel` makes: installed into a clean environment, it trains a job by itself."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from small_program import PROGRAM

WHEEL = os.environ.get("PACELINE_WHEEL", "")
pytestmark = pytest.mark.skipif(not WHEEL, reason="PACELINE_WHEEL names no wheel; ./dev wheel makes one")

# Libraries that every Linux has; auditwheel bundles everything else.
SYSTEM = (
    "linux-vdso",
    "ld-linux",
    "libc.",
    "libm.",
    "libstdc++",
    "libgcc_s",
    "libz.",
    "libpthread",
    "librt",
    "libdl",
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    venv = tmp_path_factory.mktemp("wheel") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    subprocess.run([str(venv / "bin" / "pip"), "install", "-q", "--no-deps", "--no-index", WHEEL], check=True)
    # PyTorch is what is installed here already.
    [site] = venv.glob("lib/python*/site-packages")
    (site / "torch.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return venv


def clean_environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith(("PACELINE", "PYTHON"))}


def test_it_brings_what_its_executable_needs(installed: Path) -> None:
    [executable] = installed.glob("lib/python*/site-packages/paceline/bin/paceline")
    listed = subprocess.run(["ldd", str(executable)], capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        assert "paceline.libs" in line or any(name in line for name in SYSTEM), line


def test_a_job_runs_from_it_alone(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    run = subprocess.run(
        [str(installed / "bin" / "paceline"), "run", "train.py", "--devices", "2", "--policy", "cgp", "0"],
        cwd=tmp_path,
        env=dict(clean_environment(), PATH=f"{installed}/bin:/usr/bin:/bin"),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    assert "1,280 of 1,280 samples" in run.stdout


def test_a_script_starts_it(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    run = subprocess.run(
        [str(installed / "bin" / "python"), "train.py", "0"],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    assert "1,280 of 1,280 samples" in run.stdout
