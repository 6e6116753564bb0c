"""The commands of the documents, typed in their order as they are written. Only epochs are fewer: the `paceline` that
these shells find adds `--set epochs=…` to what would train for minutes. `ssh` and `scp` reach folders instead of
machines."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from live_job import PACELINE, environment, needs_paceline
from test_documents import DOCUMENTS, ROOT, Document

pytestmark = needs_paceline

# The epochs of jobs without a program; a program says itself how many it wants.
SHORT = "0.02"
WRAPPER = """#!{python}
import os, sys
words = sys.argv[1:]
program = any(word.endswith(".toml") and "[program]" in open(word).read() for word in words)
if words[0] in ("train", "compare") and "--resume" not in words and not program:
    words[1:1] = ["--set", "epochs=" + os.environ["SHORT_EPOCHS"]]
os.execv({paceline!r}, [{paceline!r}, *words])
"""
SSH = '#!/bin/sh\ncd "$HOSTS/$1" && shift && exec "$@"\n'
SCP = """#!/bin/sh
# scp [-r] FILES HOST:FOLDER
for last; do :; done
[ "$1" = -r ] && shift
while [ $# -gt 1 ]; do cp -r "$1" "$HOSTS/${last%%:*}/${last#*:}" || exit; shift; done
"""
# Commands that this test leaves out, and why, or which test runs them.
ELSEWHERE = {
    r"^\./dev |^pip install|^export PATH": "builds or installs",
    r"^(torchrun|srun) ": "a launcher of a cluster; node_test sets what they set",
    r"^(prometheus|promtool) ": "not a command of this project",
    r"^paceline sweep ": "hours; tests/sweep_test.cc runs a small one",
    r"^paceline (ui|up|worker)|--ui": "does not end by itself; ui, up_test and faults_test",
    r"^paceline top runs(/|$)": "wants a terminal; ui_test",
    r"^paceline (doctor|node) job\.toml": "a job of many hosts; node_test",
    r"^paceline (simulate|plan|zipline) ": "test_commands.py",
}


def elsewhere(line: str) -> bool:
    return any(re.search(pattern, line) for pattern in ELSEWHERE)


def lines_of(block: str) -> Iterator[str]:
    for line in block.replace("\\\n", " ").splitlines():
        words = line.split("  #")[0].strip()
        if words and not words.startswith("#"):
            yield words


def block_with(page: Document, language: str, words: str) -> str:
    """The first block of this language that has these words."""
    return next(text for spoken, text in page.blocks if spoken == language and words in text)


class Shell:
    """A folder with what a reader has: the examples, the data, and commands by their names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        shutil.copytree(ROOT / "examples", self.folder / "examples")
        (self.folder / "bench").symlink_to(ROOT / "bench")
        shared = ROOT.parent / "shared"
        if shared.exists():
            (folder / "shared").symlink_to(shared)
        commands = folder / "bin"
        commands.mkdir()
        texts = {
            "paceline": WRAPPER.format(python=sys.executable, paceline=str(Path(PACELINE).resolve())),
            "ssh": SSH,
            "scp": SCP,
            "python": f'#!/bin/sh\nexec {sys.executable} "$@"\n',
            "python3": f'#!/bin/sh\nexec {sys.executable} "$@"\n',
        }
        for name, text in texts.items():
            (commands / name).write_text(text)
            (commands / name).chmod(0o755)
        self.environment = {
            **environment(),
            "PATH": f"{commands}:{os.environ['PATH']}",
            "SHORT_EPOCHS": SHORT,
            "HOSTS": str(folder),
        }

    def type(self, line: str) -> None:
        for part in line.split("&&"):
            ended = subprocess.run(
                ["bash", "-c", self.filled(part)],
                cwd=self.folder,
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert ended.returncode == 0, f"{line}\n{ended.stdout}\n{ended.stderr}"

    def filled(self, line: str) -> str:
        """Replaces the shortened name of a run by that of the newest run."""

        def newest(found: re.Match[str]) -> str:
            jobs = (self.folder / "runs").glob(f"{found[1] or ''}*/job.toml")
            runs = sorted((job.parent for job in jobs), key=lambda run: run.stat().st_mtime)
            assert runs, f"{line}: there is no such run"
            return f"runs/{runs[-1].name}"

        return re.sub(r"runs/(?:RUN\b|([\w-]*)…)", newest, line)


def page_named(name: str) -> Document:
    return DOCUMENTS[ROOT / "docs" / name]


def section(page: Document, number: int) -> list[tuple[str, str]]:
    """The blocks of a section of the tutorial."""
    text = page.path.read_text().split("\n## ")[number]
    return [block for block in page.blocks if block[1] in text]


def test_the_tutorial_on_one_machine(tmp_path: Path) -> None:
    shell, page = Shell(tmp_path), page_named("tutorial.md")
    for number in (1, 2):
        for language, text in section(page, number):
            if language == "python":
                (shell.folder / "train.py").write_text(text)
            elif language == "toml":
                (shell.folder / ("own.toml" if "[program]" in text else "job.toml")).write_text(text)
            else:
                for line in lines_of(text):
                    if not elsewhere(line):
                        shell.type(line)
    assert (shell.folder / "model.safetensors").exists()
    assert (shell.folder / "trace.json").exists()


# Two names and addresses in a network of its own; then both commands at once, each in its folder.
TWO_HOSTS = r"""
printf '10.77.0.1 node1\n10.77.0.2 node2\n127.0.0.1 localhost\n' >"$HOSTS/names" &&
mount --bind "$HOSTS/names" /etc/hosts && ip link set lo up &&
ip address add 10.77.0.1/32 dev lo && ip address add 10.77.0.2/32 dev lo || exit 99
[ $# = 0 ] && exit
(cd "$HOSTS/project" && bash -c "$1") & first=$!
(cd "$HOSTS/node2/job" && bash -c "$2") & second=$!
wait $first && wait $second
"""


def test_the_tutorial_on_two_machines(tmp_path: Path) -> None:
    shell, page = Shell(tmp_path), page_named("tutorial.md")
    two_hosts = ["unshare", "--map-root-user", "--mount", "--net", "bash", "-c", TWO_HOSTS, "two-hosts"]

    def on_two_hosts(*lines: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*two_hosts, *lines], env=shell.environment, capture_output=True, text=True, timeout=300, check=False
        )

    if shutil.which("unshare") is None or on_two_hosts().returncode != 0:
        pytest.skip("needs a network namespace, which this machine does not give, and iproute2")
    (tmp_path / "node2").mkdir()
    blocks = section(page, 3)
    own = block_with(page, "toml", "[program]")
    own = re.sub(r"^pace = .*\n", "", own, flags=re.MULTILINE)
    (shell.folder / "own.toml").write_text(own + "".join(text for language, text in blocks if language == "toml"))
    (shell.folder / "train.py").write_text(block_with(page, "python", "paceline.join"))
    for text in (text for language, text in blocks if language == "sh"):
        here = [line for line in text.splitlines() if not re.search(r"# on node\d$", line)]
        both = [line for line in text.splitlines() if line not in here]
        for line in here:
            shell.type(line)
        if both:
            ended = on_two_hosts(*both)
            assert ended.returncode == 0, f"{both}\n{ended.stdout}\n{ended.stderr}"
    [run] = (shell.folder / "runs").iterdir()
    assert (run / "report.html").exists()


@pytest.mark.skipif(not hasattr(torch, "compile"), reason="stages need PyTorch 2.0 or later")
def test_the_tutorial_on_two_unequal_cards(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    blocks = section(page_named("tutorial.md"), 5)
    texts = {language: [text for one, text in blocks if one == language] for language in ("python", "toml", "sh")}
    cluster, job = texts["toml"]
    one_card = "".join(cluster.partition("[[device]]")[:2]) + cluster.split("[[device]]")[1]
    for name, text in {
        "large.py": texts["python"][0],
        "two-cards.toml": cluster,
        "one-card.toml": one_card,
        "large.toml": job,
    }.items():
        (shell.folder / name).write_text(text)
    refused, *lines = [line for text in texts["sh"] for line in lines_of(text)]
    with pytest.raises(AssertionError, match="1 more device like large would be enough"):
        shell.type(refused)
    for line in lines:
        shell.type(line)
    assert (shell.folder / "large.safetensors").exists()


OF_RESULTS = [
    line
    for name in ("results.md", "extending.md", "ui.md", "sweep.md", "python.md", "deploy.md")
    for language, text in page_named(name).blocks
    if language == "sh"
    for line in lines_of(text)
    if not elsewhere(line) and line.startswith("paceline") and "examples/" in line
]


@pytest.mark.parametrize("line", OF_RESULTS)
def test_trainings_of_the_documents(line: str, tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    for place in re.findall(r"\.\./shared/\S+", line):
        if not (shell.folder / place).exists():
            pytest.skip(f"needs {place}")
    shell.type(line)
