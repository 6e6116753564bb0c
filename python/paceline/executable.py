"""The `paceline` command of an installed package: the executable that lies in it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

BUNDLED = Path(__file__).parent / "bin" / "paceline"


def main() -> None:
    if not os.access(BUNDLED, os.X_OK):
        sys.exit("paceline: this package was installed without its executable; build it with ./dev build")
    os.execv(BUNDLED, [str(BUNDLED), *sys.argv[1:]])
