"""Whole jobs whose replicas are pipelines of a program's stages."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import torch
from live_job import PACELINE, environment, needs_paceline, only_run, paceline, read_safetensors

pytestmark = needs_paceline

PROGRAM = """
    import torch, paceline
    from torch import nn
    from torch.nn import functional as F
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Linear(16, 5))
    x = torch.randn(96, 6)
    y = x[:, :5].argmax(dim=1)

    def loss(model, batch):
        outputs = model(batch[0])
        return F.cross_entropy(outputs, batch[1]), {"right": (outputs.argmax(1) == batch[1]).float().mean()}

    def evaluate(model):
        return F.cross_entropy(model(x), y).item()

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    paceline.run(model, torch.utils.data.TensorDataset(x, y), loss, evaluate, optimizer=optimizer, epochs=EPOCHS)
"""

TIED = """
    import torch, paceline
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=32, n_embd=16, n_layer=4, n_head=2))
    ids = torch.randint(64, (24, 10))

    def loss(model, batch):
        return model(input_ids=batch[0], labels=batch[0]).loss

    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    paceline.run(model, torch.utils.data.TensorDataset(ids), loss, optimizer=optimizer, epochs=2)
"""

ONE = "[[device]]\n[[pipeline]]\ndevices = ['w0']\nsamples = 12\n"


def pipeline(devices: str, cuts: str) -> str:
    return (
        f"[[device]]\ncount = {devices.count('w')}\n[[pipeline]]\ndevices = {devices}\ncuts = {cuts}\nsamples = 12\n"
    )


def write_job(folder: Path, program: str, sections: str, keys: str = "parallel = 'static'\nmicro_batch = 5\n") -> str:
    folder.mkdir(parents=True)
    (folder / "train.py").write_text(textwrap.dedent(program).replace("EPOCHS", "2"))
    job = f"{keys}{sections}[program]\nrun = 'train.py'\npython = {sys.executable!r}\n"
    (folder / "job.toml").write_text(job)
    return "job.toml"


def weights_of(folder: Path, program: str, sections: str, *more: str, **keys: str) -> dict[str, torch.Tensor]:
    ended = paceline(folder, "train", write_job(folder, program, sections, **keys), *more)
    assert ended.returncode == 0, ended.stderr
    ended = paceline(folder, "export", str(only_run(folder)), "model.safetensors")
    assert ended.returncode == 0, ended.stderr
    return read_safetensors(folder / "model.safetensors")


def expect_equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        # How many batches a batch norm has counted is each worker's own.
        assert "num_batches" in name or torch.equal(tensor, other[name]), name


def test_a_pipeline_trains_to_the_weights_of_one_device(tmp_path: Path) -> None:
    one = weights_of(tmp_path / "one", PROGRAM, ONE)
    expect_equal(weights_of(tmp_path / "two", PROGRAM, pipeline("['w0', 'w1']", "[3]")), one)
    loaders = PROGRAM.replace("epochs=EPOCHS", "epochs=EPOCHS, num_workers=1")
    expect_equal(weights_of(tmp_path / "three", loaders, pipeline("['w2', 'w0', 'w1']", "[1, 5]")), one)
    expect_equal(weights_of(tmp_path / "virtual", PROGRAM, pipeline("['w0', 'w1']", "[3]"), "--virtual"), one)


def test_a_worker_that_finds_other_places_to_cut_is_refused(tmp_path: Path) -> None:
    """An older PyTorch sees no way beside the blocks, and finds more places."""
    other = """
    import paceline.cuts
    from paceline.session import session
    if session().name == "w1":
        paceline.cuts.SidePaths.found = lambda self, loss: [(0, 2)]
    """
    job = write_job(tmp_path / "job", other + PROGRAM, pipeline("['w0', 'w1']", "[3]"))
    ended = paceline(tmp_path / "job", "train", job)
    assert ended.returncode != 0, ended.stderr
    where = rf"on host 0 \(PyTorch {re.escape(torch.__version__)}\)"
    line = (
        rf"w\d {where} finds other places to cut the model than w\d {where}; the program has to call the same blocks"
    )
    assert re.search(line, ended.stderr), ended.stderr


def test_a_rest_of_one_sample_is_none(tmp_path: Path) -> None:
    """Batch norm cannot compute on one."""
    keys = "parallel = 'static'\nmicro_batch = 11\n"
    one = weights_of(tmp_path / "one", PROGRAM, ONE, keys=keys)
    expect_equal(weights_of(tmp_path / "two", PROGRAM, pipeline("['w0', 'w1']", "[3]"), keys=keys), one)


def test_a_rest_of_one_sample_that_batch_norm_cannot_compute_on_names_micro_batch(tmp_path: Path) -> None:
    sections = pipeline("['w0', 'w1']", "[3]").replace("samples = 12", "samples = 11")
    job = write_job(tmp_path / "job", PROGRAM, sections, "parallel = 'static'\nmicro_batch = 2\n")
    ended = paceline(tmp_path / "job", "train", job)
    assert ended.returncode == 2, ended.stderr
    assert "this micro-batch has 1 sample: write a micro_batch of at least 2" in ended.stderr, ended.stderr


def test_a_stage_that_computes_on_another_device_than_the_model_s_trains_to_the_same_weights(tmp_path: Path) -> None:
    """cpu:0 is the same memory under a name that the model's tensors do not have, and copies go there as to a GPU."""
    plain = PROGRAM.replace(", evaluate, optimizer", ", optimizer")
    elsewhere = plain.replace("epochs=EPOCHS)", "epochs=EPOCHS, device='cpu:0', weights='copy')")
    elsewhere = elsewhere.replace("paceline.run(", "job = paceline.run(")
    elsewhere += """
    torch.save(model.state_dict(), f"after-{job.name}.pt")
    """
    cut = weights_of(tmp_path / "cut", elsewhere, pipeline("['w0', 'w1']", "[3]"))
    expect_equal(weights_of(tmp_path / "whole", plain, ONE), cut)
    for name in ("w0", "w1"):
        kept = torch.load(tmp_path / "cut" / f"after-{name}.pt")
        assert {tensor.device for tensor in kept.values()} == {torch.device("cpu")}
        for key, tensor in cut.items():
            assert torch.equal(kept[key], tensor), key


def test_weights_that_are_tied_across_stages_are_trained_as_on_one_device(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    one = weights_of(tmp_path / "one", TIED, ONE)
    expect_equal(weights_of(tmp_path / "two", TIED, pipeline("['w0', 'w1', 'w2']", "[1, 3]")), one)


def test_devices_that_share_a_stage_compute_in_virtual_time_as_live(tmp_path: Path) -> None:
    program = PROGRAM.replace("nn.BatchNorm1d(16)", "nn.Tanh()")
    shared = pipeline("['w2', ['w0', 'w1']]", "[2]")
    live = weights_of(tmp_path / "live", program, shared)
    expect_equal(weights_of(tmp_path / "virtual", program, shared, "--virtual"), live)


def test_the_planner_cuts_a_program(tmp_path: Path) -> None:
    folder = tmp_path / "planned"
    job = write_job(folder, PROGRAM, "[[device]]\ncount = 2\nbatch = 6\n", "parallel = 'pipeline'\n")
    ended = paceline(folder, "train", job)
    assert ended.returncode == 0, ended.stderr
    assert "plan: w0" in ended.stderr
    assert "192 of 192 samples" in ended.stdout


def test_a_program_of_whole_models_is_compared_with_its_stages(tmp_path: Path) -> None:
    """The program is asked about itself once for the job, and then says no units."""
    job = write_job(tmp_path / "job", PROGRAM, "[[device]]\ncount = 2\nbatch = 12\n", "micro_batch = 12\n")
    compared = paceline(tmp_path / "job", "compare", job, "--parallel", "data,pipeline")
    assert compared.returncode == 0, compared.stderr
    assert "plan: w0" in compared.stderr


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("for _ in paceline.join(model, data): pass", "paceline.run(model, train_set, loss) instead of the loop"),
        ("paceline.run(model, data, lambda m, b: m(b[0]).sum(), blocks='0')", "blocks = '0' is not the name of"),
        ("paceline.run(model, data, lambda m, b: (m(b[0]) + m(b[0])).sum())", "calls 0 2 times"),
        ("paceline.run(nn.Linear(6, 1), data, lambda m, b: m(b[0]).sum())", "no ModuleList or Sequential"),
    ],
)
def test_a_program_that_cannot_be_cut_is_refused_in_one_line(tmp_path: Path, program: str, says: str) -> None:
    head = """
        import torch, paceline
        from torch import nn
        model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 1))
        data = torch.utils.data.TensorDataset(torch.randn(24, 6))
    """
    folder = tmp_path / "refused"
    job = write_job(folder, textwrap.dedent(head) + program, pipeline("['w0', 'w1']", "[1]"))
    ended = paceline(folder, "train", job)
    assert ended.returncode == 2
    [line] = [line for line in ended.stderr.splitlines() if line.startswith("paceline: ")]
    assert says in line
    assert not (folder / "runs").exists()


@pytest.mark.parametrize("hosts", ["1", "2"])
def test_a_stage_that_is_killed_in_a_batch_ends_its_replica_and_loses_no_sample(tmp_path: Path, hosts: str) -> None:
    folder = tmp_path / "killed"
    program = PROGRAM.replace("EPOCHS", "20").replace(
        "        outputs = model", "        import time; time.sleep(0.01)\n        outputs = model"
    )
    alone = "[[device]]\ncount = 3\n[[pipeline]]\ndevices = ['w2']\nsamples = 6\n"
    piped = "[[pipeline]]\ndevices = ['w0', 'w1']\ncuts = [3]\nsamples = 12\n"
    job = write_job(folder, program, alone + piped, "parallel = 'static'\nmicro_batch = 3\n")
    run = subprocess.Popen(
        [PACELINE, "train", job, "--set", f"cluster.hosts={hosts}"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    stage: int | None = None
    while run.poll() is None and stage is None:
        if has_trained(folder):
            stage = program_of(run.pid, b"w1")
        time.sleep(0.05)
    assert stage is not None
    os.kill(stage, signal.SIGKILL)
    output, errors = run.communicate(timeout=300)
    assert run.returncode == 0, errors
    assert "1,920 of 1,920 samples" in output, output


def program_of(launcher: int, device: bytes) -> int | None:
    """The process of the device's program, in a run with this launcher."""
    for one in Path("/proc").iterdir():
        try:
            words = (one / "cmdline").read_bytes().split(b"\0")
            worker = (one / "stat").read_text().rpartition(")")[2].split()[1]
            workers = Path(f"/proc/{worker}/cmdline").read_bytes().split(b"\0")
        except (OSError, IndexError):
            continue
        is_program = any(word.endswith(b"train.py") for word in words)
        if is_program and device in workers and is_below(int(one.name), launcher):
            return int(one.name)
    return None


def is_below(pid: int, ancestor: int) -> bool:
    while pid > 1:
        if pid == ancestor:
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False


def has_trained(folder: Path) -> bool:
    metrics = list((folder / "runs").glob("*/metrics.jsonl"))
    return bool(metrics) and metrics[0].stat().st_size > 0


FOUR_BLOCKS = """
    import torch, paceline
    from torch import nn
    from torch.nn import functional as F
    torch.manual_seed(0)
    class Block(nn.Module):
        def __init__(self, inputs):
            super().__init__()
            self.linear = nn.Linear(inputs, 16)
        def forward(self, x):
            return torch.tanh(self.linear(x))
    model = nn.Sequential(Block(6), Block(16), Block(16), Block(16))
    x = torch.randn(960, 6)
    y = x[:, :5].argmax(dim=1)

    def loss(model, batch):
        return F.cross_entropy(model(batch[0]), batch[1])

    def evaluate(model):
        return F.cross_entropy(model(x), y).item()

    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    paceline.run(model, torch.utils.data.TensorDataset(x, y), loss, evaluate, optimizer=optimizer, epochs=3)
"""

# A device holds three of the four blocks at the most, so every replica is a pipeline.
JOINT = "parallel = 'joint'\nmicro_batch = 2\n"
UNEQUAL = "[[device]]\ncount = 3\nbatch = 8\npace_ms = 30\nmemory_mb = 0.7\n" + 4 * (
    "[[layer]]\nwork_ms = 1\nparameter_kb = 100\noutput_kb = 1\n"
)
# One device after the other becomes slow, and is fast again.
CHANGES = "".join(
    f"[[change]]\ndevice = {device}\nat_s = {at}\nuntil_s = {at + 2}\nfactor = 6\n"
    for device, at in [(0, 1), (2, 3), (1, 5), (0, 7)]
)


def joint_run(folder: Path, changes: str, *more: str) -> tuple[str, list[float]]:
    """All that the run said, and the losses that its evaluator measured."""
    job = write_job(folder, FOUR_BLOCKS, changes + UNEQUAL, JOINT)
    ended = paceline(folder, "train", job, *more)
    assert ended.returncode == 0, ended.stderr
    assert "2,880 of 2,880 samples" in ended.stdout
    replayed = paceline(folder, "replay", str(only_run(folder)))
    assert replayed.returncode == 0, replayed.stderr
    lines = [json.loads(line) for line in (only_run(folder) / "metrics.jsonl").read_text().splitlines()]
    return ended.stderr, [line["loss"] for line in lines if "loss" in line]


@pytest.mark.parametrize(
    "more", [[], ["--set", "cluster.hosts=2"], ["--virtual"]], ids=["live", "on two hosts", "virtual"]
)
def test_a_program_is_cut_again_while_it_trains(tmp_path: Path, more: list[str]) -> None:
    said, undisturbed = joint_run(tmp_path / "undisturbed", "", *more)
    assert "plan: w" in said
    said, disturbed = joint_run(tmp_path / "disturbed", CHANGES, *more)
    assert "re-planned: " in said
    # Other cuts and shares add up the same gradients in another order.
    assert disturbed == pytest.approx(undisturbed, rel=1e-4)
    assert undisturbed[-1] < undisturbed[0]


# A block keeps 400 MB between its passes, which the plan knows nothing of, and nobody touches.
LARGE_BLOCKS = """
    import resource
    import torch

    class Kept(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(torch.empty(100_000_000, device=x.device))
            return x.clone()
        @staticmethod
        def backward(ctx, gradient):
            return gradient

    limited = False
    def limit():
        global limited
        if limited:
            return
        limited = True
        pages = int(open("/proc/self/statm").read().split()[0])
        limit = pages * resource.getpagesize() + ROOM * 1_000_000
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
""" + FOUR_BLOCKS.replace("torch.tanh(self.linear(x))", "Kept.apply(torch.tanh(self.linear(x)))").replace(
    "return F.cross_entropy(model(batch[0]), batch[1])",
    "limit()\n        return F.cross_entropy(model(batch[0]), batch[1])",
)
# The faster device gets three of the four blocks.
FAST_AND_SLOW = (
    "[evaluate]\nenabled = false\n"
    + "".join(f"[[device]]\nbatch = 12\npace_ms = {pace}\nmemory_mb = 0.7\n" for pace in (10, 40))
    + 4 * "[[layer]]\nwork_ms = 1\nparameter_kb = 100\noutput_kb = 1\n"
)


# The plan has the whole model on each device, and each runs out of memory.
WHOLE = (
    FAST_AND_SLOW.replace("40", "10")
    .replace("memory_mb = 0.7", "memory_mb = 100")
    .replace("work_ms = 1", "work_ms = 9")
)


def run_with_room_of(
    megabytes: int, folder: Path, devices: str = FAST_AND_SLOW, keys: str = "parallel = 'joint'\nmicro_batch = 24\n"
) -> subprocess.CompletedProcess[str]:
    """A run whose devices have so much memory each beside what their processes begin with."""
    return paceline(folder, "train", write_job(folder, LARGE_BLOCKS.replace("ROOM", str(megabytes)), devices, keys))


def test_a_stage_without_memory_is_cut_smaller_and_no_sample_is_lost(tmp_path: Path) -> None:
    ended = run_with_room_of(1000, tmp_path / "run")
    assert ended.returncode == 0, ended.stderr
    assert "there is no room on this device for units 0 to 2" in ended.stderr
    assert "re-planned: " in ended.stderr and "(a device has less memory than its stage needs)" in ended.stderr
    assert "2,880 of 2,880 samples" in ended.stdout
    replayed = paceline(tmp_path / "run", "replay", str(only_run(tmp_path / "run")))
    assert replayed.returncode == 0, replayed.stderr


def test_a_whole_model_without_memory_is_cut_and_no_sample_is_lost(tmp_path: Path) -> None:
    ended = run_with_room_of(1300, tmp_path / "run", WHOLE, "parallel = 'joint'\nmicro_batch = 12\n")
    assert ended.returncode == 0, ended.stderr
    assert "plan: w0 (layers 0-3) 12 samples, w1 (layers 0-3) 12 samples" in ended.stderr
    assert "there is no room on this device for units 0 to 3" in ended.stderr
    assert "re-planned: w0 → w1 (" in ended.stderr
    assert "2,880 of 2,880 samples" in ended.stdout
    replayed = paceline(tmp_path / "run", "replay", str(only_run(tmp_path / "run")))
    assert replayed.returncode == 0, replayed.stderr


def test_a_whole_model_that_no_plan_cuts_says_which_micro_batch_may_fit(tmp_path: Path) -> None:
    one = "[evaluate]\nenabled = false\n[[device]]\nbatch = 12\n"
    ended = run_with_room_of(1000, tmp_path / "run", one, "parallel = 'data'\n")
    assert ended.returncode == 2, ended.stderr
    assert "12 samples at once have no room on this device: write --set micro_batch=6" in ended.stderr


def test_a_resumed_run_knows_what_memory_its_devices_have(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    slow = FAST_AND_SLOW.replace("pace_ms = 10", "pace_ms = 50").replace("pace_ms = 40", "pace_ms = 200")
    job = write_job(folder, LARGE_BLOCKS.replace("ROOM", "1000"), slow, "parallel = 'joint'\nmicro_batch = 24\n")
    words = [PACELINE, "train", job]
    with subprocess.Popen(words, cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True) as first:
        assert first.stderr is not None
        said = next((line for line in first.stderr if "re-planned: " in line), "it ended without another plan")
        first.send_signal(signal.SIGTERM)
        said += first.communicate()[1]
    assert first.returncode == 128 + signal.SIGTERM, said
    resumed = paceline(folder, "train", "--resume", str(only_run(folder)))
    assert resumed.returncode == 0, resumed.stderr
    assert "lowered_memory_mb" in (only_run(folder) / "job.toml").read_text()
    assert "there is no room" not in resumed.stderr
    assert "2,880 of 2,880 samples" in resumed.stdout
    replayed = paceline(folder, "replay", str(only_run(folder)))
    assert replayed.returncode == 0, replayed.stderr


def test_a_model_that_fits_in_no_cut_ends_in_one_line(tmp_path: Path) -> None:
    ended = run_with_room_of(300, tmp_path / "run")
    assert ended.returncode == 2, ended.stderr
    assert "no way to cut the model fits into the memory of the 2 devices" in ended.stderr
