"""The `paceline` command of an installed package: the executable that lies in it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

BUNDLED = Path(__file__).parent / "bin" / "paceline"


def main() -> None:
    if not os.access(BUNDLED, os.X_OK):
        sys.exit("paceline: this package was installed without its executable; build it with ./dev build")
    _let_it_find_this_python()
    os.execv(BUNDLED, [str(BUNDLED), *sys.argv[1:]])


def _let_it_find_this_python() -> None:
    """A job's `python3` is the one with this package, even in a venv that is not activated."""
    folder = os.path.dirname(sys.executable)
    found = shutil.which("python3")
    if folder and (found is None or os.path.dirname(found) != folder):
        os.environ["PATH"] = os.pathsep.join([folder, os.environ.get("PATH", os.defpath)])
