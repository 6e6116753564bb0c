"""A planned job whose devices have the memory that their cards have free: cards of the stand-in driver."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from card import ON_CARD, STAND_IN, needs_card
from live_job import needs_paceline, only_run, paceline
from test_live_stages import write_job

from paceline.card_memory import free_memory

pytestmark = [needs_paceline, needs_card]

# Four equal blocks: each has 4 MB of weights and as much of gradients.
PROGRAM = """
    import torch, paceline
    from torch import nn
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(1000, 1000) for _ in range(4)))
    x = torch.randn(24, 1000)

    def loss(model, batch):
        return model(batch[0]).square().mean()

    paceline.run(model, torch.utils.data.TensorDataset(x), loss, batch_size=6, epochs=1)
"""
KEYS = "parallel = 'pipeline'\nmicro_batch = 6\n"
TWO = "[[device]]\n[[device]]\n"


@pytest.fixture(autouse=True)
def cards(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ON_CARD.items():
        monkeypatch.setenv(name, value)


def trained(folder: Path, sections: str) -> subprocess.CompletedProcess[str]:
    return paceline(folder, "train", write_job(folder, PROGRAM, sections, KEYS))


@pytest.mark.parametrize(
    ("megabytes", "cut"),
    [((1030, 1012), "w0 → w1 (layers 0-2 | 3-3)"), ((1012, 1030), "w0 → w1 (layers 0-0 | 1-3)")],
)
def test_a_model_is_cut_by_the_memory_of_cards_that_the_job_does_not_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, megabytes: tuple[int, int], cut: str
) -> None:
    monkeypatch.setenv("PACELINE_STAND_IN_BYTES", ",".join(f"{one}000000" for one in megabytes))
    folder = tmp_path / "job"
    ended = trained(folder, TWO)
    assert ended.returncode == 0, ended.stderr
    assert f"plan: {cut}" in ended.stderr
    words = f"w0 {megabytes[0] - 1000} MB, w1 {megabytes[1] - 1000} MB: "
    assert f"memory: {words}their cards' free memory when the run began" in ended.stderr
    assert words in (only_run(folder) / "report.html").read_text()


def test_memory_that_the_job_says_counts_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_STAND_IN_BYTES", "1030000000,1012000000")
    ended = trained(tmp_path / "job", "[[device]]\nmemory_mb = 12\n[[device]]\nmemory_mb = 30\n")
    assert ended.returncode == 0, ended.stderr
    assert "plan: w0 → w1 (layers 0-0 | 1-3)" in ended.stderr
    assert "memory:" not in ended.stderr


def test_cards_without_room_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_STAND_IN_BYTES", "1012000000,1012000000")
    ended = trained(tmp_path / "job", TWO)
    assert ended.returncode == 2
    [line] = [line for line in ended.stderr.splitlines() if line.startswith("paceline: ")]
    assert "the devices' memory does not hold the model" in line
    assert "memory: w0 12 MB, w1 12 MB: their cards' free memory when the run began, less 1000 MB for each" in line


def test_a_driver_that_does_not_answer_tells_of_no_card(tmp_path: Path) -> None:
    assert free_memory(str(tmp_path / "none.so"), {}) == []
    assert free_memory(STAND_IN, {"PACELINE_STAND_IN_CARDS": "2", "PACELINE_STAND_IN_BYTES": "5,7"}) == [5, 7]
    assert (
        "torch"
        not in subprocess.run(
            [
                sys.executable,
                "-I",
                "-c",
                "import runpy, sys; runpy.run_path(sys.argv[1]); print(*sys.modules)",
                str(Path(__file__).parent.parent / "paceline" / "card_memory.py"),
            ],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
    )
