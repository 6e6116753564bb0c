"""A process that is to die with its parent, whether the parent dies before or after the child has said so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent

BEFORE = """
import os, time
from paceline.parent_death import die_with
parent = os.getpid()
if os.fork() == 0:
    while os.getppid() == parent:
        time.sleep(0.01)
    os.write(1, b"asks ")
    die_with(parent)
    os.write(1, b"lives on")
"""
AFTER = """
import os, time
from paceline.parent_death import die_with
parent = os.getpid()
if os.fork() == 0:
    die_with(parent)
    os.write(1, b"asks ")
    time.sleep(60)
    os.write(1, b"lives on")
else:
    time.sleep(600)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has such a signal")
@pytest.mark.parametrize("text", [BEFORE, AFTER], ids=["before", "after"])
def test_a_parent_that_dies(text: str) -> None:
    words = [sys.executable, "-c", text]
    with subprocess.Popen(words, env={**os.environ, "PYTHONPATH": str(PACKAGE)}, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        said = parent.stdout.read(len("asks "))
        parent.kill()
        said += parent.stdout.read()  # to its end: no process is left
    assert said == b"asks "


def test_a_child_of_a_parent_that_lives() -> None:
    text = "import os; from paceline.parent_death import die_with; die_with(os.getppid()); print('lives on')"
    words = [sys.executable, "-c", text]
    ended = subprocess.run(words, env={**os.environ, "PYTHONPATH": str(PACKAGE)}, stdout=subprocess.PIPE)
    assert ended.stdout == b"lives on\n"
