"""The start of a program in another environment than ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from fake_member import PACKAGE

from paceline._version import PROTOCOL

PROGRAM = """
import json, os, sys
from paceline.session import _read_start

class Start:
    def read(self):
        return json.load(sys.stdin)

sys.stdin.reconfigure(encoding="utf-8")  # the channel reads UTF-8 in any locale
start = _read_start(Start())
print(sys.getfilesystemencoding())
for path in (start.run_folder, start.host_folder):
    print(os.listdir(path))
print(open(start.initial_weights).read())
"""


def test_paths_of_the_worker_are_the_same_files_in_a_locale_that_is_not_utf_8(tmp_path: Path) -> None:
    folder = tmp_path / "jürgen"
    folder.mkdir()
    (folder / "weights").write_text("here")
    start = {
        "type": "start",
        "protocol": PROTOCOL,
        "initial_weights": str(folder / "weights"),
        "frozen": {"folder": str(folder)},
        "host_folder": str(folder),
    }
    no_utf_8 = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(start, ensure_ascii=False).encode(),
        env={**os.environ, **no_utf_8, "PYTHONPATH": str(PACKAGE)},
        stdout=subprocess.PIPE,
        check=True,
    )
    assert ended.stdout.split(b"\n")[:4] == [b"ascii", b"['weights']", b"['weights']", b"here"]
