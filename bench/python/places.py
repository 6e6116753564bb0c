"""The places of the package, the executable and the real data."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DATA = ROOT / "../shared/data"


def executable() -> str:
    """`paceline` as it was built, or whatever the environment variable PACELINE names."""
    named = os.environ.get("PACELINE") or str(ROOT / "build/release/paceline")
    found = shutil.which(named)
    if found is None:
        raise SystemExit(f"bench: {named} is not an executable; ./dev build makes it, and PACELINE may name another")
    return os.path.abspath(found)


def environment() -> dict[str, str]:
    """Environment of measured programs: one thread each, because there is one program for each processor."""
    path = os.pathsep.join([str(HERE), str(ROOT / "python")])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
