"""One job whose workers have PyTorch of two releases: this Python's and Debian's. PACELINE names `paceline`."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from live_job import PACELINE, exported, paceline
from small_program import PROGRAM, make_model

DEBIANS = "/usr/bin/python3"

pytestmark = pytest.mark.skipif(not PACELINE, reason="PACELINE does not name the executable")

# Stands where a job's Python stands. The start message says whose program it is; it is looked at and left for the
# package to read.
CHOICE = """\
#!{ours}
import json, os, socket, sys

channel = socket.socket(fileno=int(os.environ["PACELINE_PROGRAM_FD"]))
start = b""
while not start.endswith(b"\\n"):
    start = channel.recv(1 << 16, socket.MSG_PEEK)
channel.detach()
python = {debians!r} if json.loads(start)["name"] == "w1" else {ours!r}
os.execv(python, [python, *sys.argv[1:]])
"""

# Says who computed what, besides what the samples were.
MORE = """
    with open(f"said-{job.name}.json", "w") as file:
        json.dump({"torch": torch.__version__, "python": sys.executable, "losses": losses}, file)
"""


@functools.cache
def debians_torch() -> str:
    """Its version, or nothing."""
    asked = subprocess.run(
        [DEBIANS, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True, timeout=120
    )
    return asked.stdout.strip()


def program() -> str:
    text = PROGRAM.replace("seen = []", "seen, losses = [], []")
    text = text.replace("    loss.backward()\n", "    loss.backward()\n    losses.append(loss.item())\n")
    assert text.count("losses") == 2
    return text + MORE


def plain_losses(rounds: list[list[list[int]]]) -> tuple[list[list[float]], torch.nn.Module]:
    """The loss of each worker's batch in each round, under plain PyTorch; and the model after the last round."""
    model, x, y = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
    losses = []
    for batches in rounds:
        with torch.no_grad():
            losses.append([F.cross_entropy(model(x[one]), y[one]).item() for one in batches])
        whole = [index for one in batches for index in one]
        optimizer.zero_grad()
        F.cross_entropy(model(x[whole]), y[whole]).backward()
        optimizer.step()
    return losses, model


def test_two_releases_of_pytorch_train_one_model(tmp_path: Path) -> None:
    if not Path(DEBIANS).exists() or not debians_torch():
        pytest.skip("Debian's PyTorch is not installed: apt-get install python3-torch")
    if debians_torch() == torch.__version__:
        pytest.skip("these tests run with Debian's PyTorch themselves")
    choice = tmp_path / "choice"
    choice.write_text(CHOICE.format(ours=sys.executable, debians=DEBIANS))
    choice.chmod(0o755)
    (tmp_path / "train.py").write_text(program())
    ended = paceline(tmp_path, "run", "train.py", "--python", str(choice), "--devices", "2", "0")
    assert ended.returncode == 0, ended.stderr

    said = [json.loads((tmp_path / f"said-w{i}.json").read_text()) for i in range(2)]
    assert [one["torch"] for one in said] == [torch.__version__, debians_torch()]

    seen = [json.loads((tmp_path / f"seen-w{i}.json").read_text()) for i in range(2)]
    assert len(seen[0]) == len(seen[1])
    rounds = [list(batches) for batches in zip(*seen)]
    assert sorted(index for batches in rounds for one in batches for index in one) == sorted(2 * list(range(640)))
    losses, plain = plain_losses(rounds)
    for i, one in enumerate(said):
        assert one["losses"] == pytest.approx([both[i] for both in losses], rel=1e-4)

    [run] = (tmp_path / "runs").iterdir()
    model, _, _ = make_model()
    model.load_state_dict(exported(tmp_path, run), strict=True)
    for ours, theirs in zip(model.parameters(), plain.parameters()):
        assert (ours - theirs).abs().max() <= 1e-5 * theirs.abs().max()
