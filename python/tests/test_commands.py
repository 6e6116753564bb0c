"""Commands of `paceline` in the documents name policies and examples that there are, and those that only compute run as
they are written. That all can be parsed is seen by command_line_test.cc."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from live_job import PACELINE, needs_paceline
from test_documents import DOCUMENTS, ROOT, Document

# Commands that need no other file than those beside them, no libtorch and a few seconds.
RUN_AS_WRITTEN = {"simulate", "plan", "zipline"}
SCENARIO = "examples/scenarios/jitter.toml"


@dataclass(frozen=True)
class Command:
    page: Path
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}: {shlex.join(self.words)}"


def commands_in(page: Document) -> Iterator[Command]:
    for language, text in page.blocks:
        if language != "sh":
            continue
        for line in text.replace("\\\n", " ").splitlines():
            for part in line.split("&&"):
                words = shlex.split(part, comments=True)
                if words[:1] == ["paceline"]:
                    yield Command(page.path, tuple(words))


COMMANDS = [command for page in DOCUMENTS.values() for command in commands_in(page)]
each_command = pytest.mark.parametrize("command", COMMANDS, ids=str)


def paceline(*words: str, directory: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PACELINE, *words], cwd=directory, capture_output=True, text=True, timeout=300, check=False)


def test_there_are_commands() -> None:
    assert len(COMMANDS) > 50
    assert {"train", "node", "simulate"} <= {command.words[1] for command in COMMANDS}


@each_command
def test_examples_are_there(command: Command) -> None:
    for word in command.words[2:]:
        if word.startswith("examples/"):
            assert (ROOT / word).exists(), f"{command}: there is no {word}"


def commands_of_examples() -> list[str]:
    lines = [
        line for example in sorted((ROOT / "examples").rglob("*.toml")) for line in example.read_text().splitlines()
    ]
    return [line.lstrip("# ") for line in lines if re.match("# +paceline ", line)]


def test_a_shell_leaves_the_words_of_an_example_as_they_are() -> None:
    """A shell takes {a,b} apart unless it stands in quotes."""
    commands = commands_of_examples()
    assert len(commands) > 20
    for command in commands:
        first = command.split("&&")[0]
        print_words = ["bash", "-c", "printf '%s\\n' " + first]
        words = subprocess.run(print_words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
        assert words == shlex.split(first)
        assert not any(word.startswith("[") for word in words), command


@needs_paceline
@each_command
def test_policies_are_known(command: Command) -> None:
    for option, value in zip(command.words, command.words[1:], strict=False):
        if option not in ("--policies", "--policy"):
            continue
        # A policy that only a live run can have is left out here, and policies need as many replicas as the scenario
        # has.
        tried = paceline("simulate", SCENARIO, "--policies", value)
        assert tried.returncode == 0 or "replicas" in tried.stderr, f"{command}: {tried.stderr}"


@needs_paceline
@each_command
def test_what_only_computes_runs_as_written(command: Command, tmp_path: Path) -> None:
    if "large.py" in command.words:
        pytest.skip("test_live_commands.py types this section, with its files")
    if command.words[1] not in RUN_AS_WRITTEN:
        pytest.skip("needs more than its file")
    words = list(command.words[1:])
    beside = [Path(folder) for folder, _, files in os.walk(ROOT / "examples") if set(words) & set(files)]
    # A page may speak of files in one folder, and name them without it.
    ran = paceline(*words, directory=beside[0] if beside else ROOT)
    assert ran.returncode == 0, f"{command}: {ran.stderr}"
    assert ran.stdout
