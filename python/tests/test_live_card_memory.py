"""A planned job whose devices have the memory that their cards have free: cards of the stand-in driver."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from card import ON_CARD, STAND_IN, needs_card
from chaos_hosts import ChaosHosts
from fake_member import Member
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


def test_a_plan_that_a_whole_model_is_compared_with_knows_the_memory_of_cards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACELINE_STAND_IN_BYTES", "1100000000,1100000000")
    folder = tmp_path / "job"
    job = write_job(folder, PROGRAM, TWO, "parallel = 'data'\nmicro_batch = 6\n")
    ended = paceline(folder, "compare", job, "--parallel", "data,pipeline")
    assert ended.returncode == 0, ended.stderr
    assert "memory: w0 100 MB, w1 100 MB: their cards' free memory when the run began" in ended.stderr


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


HOSTS_JOB = """
name = "chaos"
parallel = "joint"
micro_batch = 6
[network]
listen = "127.0.0.1:{port}"
certs = "certs/chaos"
[evaluate]
enabled = false
[program]
run = "train.py"
python = {python!r}
[[device]]
count = 2
"""


def trained_on_hosts(folder: Path, megabytes: tuple[int, int]) -> tuple[list[int], str]:
    """The exit status of each host, which has one card of so much memory, and what both said."""
    own = [{"PACELINE_STAND_IN_BYTES": f"{one}000000", "PACELINE_STAND_IN_CARDS": "1"} for one in megabytes]
    hosts = ChaosHosts(folder, own_disks=False, own_variables=own)
    (folder / "train.py").write_text(textwrap.dedent(PROGRAM))
    (folder / "job.toml").write_text(HOSTS_JOB.format(port=hosts.port, python=sys.executable))
    assert paceline(folder, "certs", "certs", "--job", "chaos").returncode == 0
    hosts.start()
    try:
        return hosts.exit_statuses(240), hosts.said()
    finally:
        hosts.kill_all()


def test_each_host_measures_its_own_cards(tmp_path: Path) -> None:
    statuses, said = trained_on_hosts(tmp_path, (1030, 1012))
    assert statuses == [0, 0], said
    assert "re-planned: " in said and "(a device has less memory than its stage needs)" in said, said
    last = [line for line in said.splitlines() if "re-planned: " in line][-1]
    assert "w0 → w1 (layers 0-2 | 3-3)" in last or "w1 → w0 (layers 0-0 | 1-3)" in last, last
    [run] = [path.parent for path in tmp_path.glob("runs/*/journal.sqlite")]
    replayed = paceline(tmp_path, "replay", str(run))
    assert replayed.returncode == 0, replayed.stderr


def test_hosts_without_room_are_one_line(tmp_path: Path) -> None:
    statuses, said = trained_on_hosts(tmp_path, (1012, 1012))
    assert 0 not in statuses, said
    assert "the 2 devices have 24 MB together" in said, said


@pytest.mark.parametrize("device", [0, 1])
def test_a_worker_says_what_its_card_has_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: int) -> None:
    monkeypatch.setenv("PACELINE_STAND_IN_BYTES", "1030000000,1012000000")
    with Member(tmp_path, PROGRAM, environment=ON_CARD, stages=True, card_memory=True, on_host=device) as member:
        said = member.receive("model")["card_memory"]
    assert said["free"] == (1_030_000_000, 1_012_000_000)[device]
    assert said["card"].startswith("GPU-")


def test_the_doctor_shows_the_free_memory_of_each_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_STAND_IN_BYTES", "1030000000,1012000000")
    folder = tmp_path / "job"
    examined = paceline(folder, "doctor", write_job(folder, PROGRAM, TWO, "parallel = 'data'\n"))
    assert "w0 30 MB, w1 12 MB: their cards' free memory, less 1000 MB for each" in examined.stdout, examined.stdout


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
