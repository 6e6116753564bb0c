"""`paceline profile` and `paceline plan` of a program, with the real executable."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from live_job import needs_paceline, paceline

pytestmark = [
    needs_paceline,
    pytest.mark.skipif(not hasattr(torch, "compile"), reason="stages need PyTorch 2.0 or later"),
]

PROGRAM = """
import torch, torch.nn as nn
import paceline

torch.manual_seed(0)
widths = [256] * 7
model = nn.Sequential(*(nn.Linear(a, b) for a, b in zip(widths, widths[1:])))

def loss(model, batch):
    [x] = batch
    return model(x).square().mean()

data = torch.utils.data.TensorDataset(torch.randn(64, 256))
paceline.run(model, data, loss, optimizer=torch.optim.AdamW(model.parameters(), 1e-3), batch_size=16)
open("went-on", "w").close()
"""

GPT2 = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel
import paceline

torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=32, n_embd=16, n_layer=4, n_head=2))
data = torch.utils.data.TensorDataset(torch.randint(64, (32, 10)))
paceline.run(model, data, lambda model, batch: model(input_ids=batch[0], labels=batch[0]).loss)
"""

# The units have equal work, so the cut by hand follows from the speeds.
EQUAL = "".join(
    f'[[layer]]\nname = "{name}"\nwork_ms = 1\noutput_kb = 1\nactivation_kb = 1000\nparameter_kb = 1000\n'
    for name in range(6)
)


def devices(*described: str) -> str:
    return "batch = 96\nmicro_batch = [1]\n" + "".join(f"[[device]]\n{one}\n" for one in described)


def command(folder: Path, program: str, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(textwrap.dedent(program))
    return paceline(folder, *words, "--python", sys.executable)


def planned(folder: Path, *words: str) -> Any:
    ended = paceline(folder, "plan", *words, "--json", "-")
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_a_profile_has_the_layers_of_a_plan(tmp_path: Path) -> None:
    ended = command(tmp_path, PROGRAM, "profile", "train.py", "--micro-batch", "4", "-o", "profile.toml")
    assert ended.returncode == 0, ended.stderr
    parameters = 6 * (256 * 256 + 256)
    assert f"Sequential of train.py: {parameters:,} parameters, all trained" in ended.stdout
    assert "micro-batches of 1, 2 and 4 samples" in ended.stdout
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__") == [
        "profile.toml",
        "train.py",
    ]
    text = (tmp_path / "profile.toml").read_text()
    assert text.startswith(f"# Sequential of train.py: {parameters:,} parameters, all trained\n")
    assert text.count("[[layer]]") == 6
    assert text.count(f"parameter_kb = {4 * parameters / 6 / 1000}\n") == 6
    assert text.count(f"state_kb = {8 * parameters / 6 / 1000}\n") == 6  # AdamW has two moments
    assert text.count("output_kb = 1.024\n") == 5
    assert text.count("activation_kb = 1.024\n") == 5
    (tmp_path / "one.toml").write_text(devices("memory_mb = 100"))
    plan = planned(tmp_path, "one.toml", "--profile", "profile.toml")
    [replica] = plan["replicas"]
    assert replica["weights_mb"] == replica["gradients_mb"] == [pytest.approx(4 * parameters / 1e6)]


def test_a_program_is_measured_and_planned(tmp_path: Path) -> None:
    memory = 1.5  # MB; a unit has 0.526 MB of weights and gradients, and needs 0.27 MB while it computes
    (tmp_path / "six.toml").write_text(devices(f"count = 6\nmemory_mb = {memory}"))
    ended = command(tmp_path, PROGRAM, "plan", "train.py", "--cluster", "six.toml")
    assert ended.returncode == 0, ended.stderr
    for words in ("replica 0: ", " samples/s", "memory, MB", "second best: "):
        assert words in ended.stdout
    assert re.search(r"the servers hold 1\.579 MB of weights and 3\.158 MB of the optimizer's state", ended.stdout)
    (tmp_path / "one.toml").write_text(devices("memory_mb = 2"))
    ended = command(tmp_path, PROGRAM, "plan", "train.py", "--cluster", "one.toml")
    assert ended.returncode == 2
    assert re.fullmatch(
        r"paceline: one.toml: the model needs 4\.\d+ MB of memory \(weights, gradients, activations of 1 sample\) and "
        r"the one device has 2 MB: 2\.\d+ MB are missing; 1 more device like d0 would be enough\n",
        ended.stderr,
    )


def test_the_cut_follows_the_speeds(tmp_path: Path) -> None:
    (tmp_path / "equal.toml").write_text(EQUAL)
    # Neither device holds all six, with 2 MB of weights and gradients each.
    two = ["name = 'fast'\nmemory_mb = 13", "name = 'slow'\nspeed = 0.5\nmemory_mb = 11.5"]
    (tmp_path / "two.toml").write_text(devices(*two) + "[link]\ngbps = 1000\nlatency_us = 0\n")
    plan = planned(tmp_path, "two.toml", "--profile", "equal.toml")
    [replica] = plan["replicas"]
    layers = [replica["cuts"][0], 6 - replica["cuts"][0]]
    assert dict(zip(replica["devices"], layers)) == {"fast": 4, "slow": 2}
    assert replica["stage_ms"] == [4, 4]


@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="transformers is not installed")
def test_a_gpt2_of_transformers(tmp_path: Path) -> None:
    ended = command(tmp_path, GPT2, "profile", "train.py", "--micro-batch", "2", "-o", "profile.toml")
    assert ended.returncode == 0, ended.stderr
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=32, n_embd=16, n_layer=4, n_head=2))
    parameters = sum(one.numel() for one in model.parameters())
    assert f"GPT2LMHeadModel of train.py: {parameters:,} parameters, all trained" in ended.stdout
    text = (tmp_path / "profile.toml").read_text()
    assert 'tied_kb = 4.096\ntied_to = "transformer.h.0"\n' in text
    sizes = [float(kilobytes) for kilobytes in re.findall(r"^parameter_kb = (.*)$", text, re.MULTILINE)]
    assert sum(sizes) == pytest.approx(4 * parameters / 1000)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["plan", "train.py"], "train.py: is a program; name the cluster too: paceline plan train.py --cluster"),
        (["plan"], "name a cluster file"),
        (["plan", "train.py", "--cluster", "c.toml", "--profile", "p.toml"], "both name a model; leave one out"),
        (["plan", "with_model.toml", "--profile", "p.toml"], "the command line names the model"),
        (["profile", "job.toml"], "job.toml: is a job file, not a program"),
        (["profile", "absent.py"], "absent.py: no such file"),
        (["profile", "train.py"], "it cannot be cut into stages: the program's own loop computes whole models"),
    ],
)
def test_what_cannot_be_is_one_line(tmp_path: Path, words: list[str], says: str) -> None:
    (tmp_path / "c.toml").write_text(devices(""))
    (tmp_path / "with_model.toml").write_text(devices("") + "[model]\nlayers = [1, 2]\n")
    (tmp_path / "p.toml").write_text(EQUAL)
    own_loop = """
        import torch, paceline
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
        for batch in paceline.join(model, torch.utils.data.TensorDataset(torch.ones(4, 2))):
            pass
    """
    ended = command(tmp_path, own_loop, *words)
    assert ended.returncode == 2
    assert says in ended.stderr
    assert ended.stderr.count("\n") == 1, ended.stderr


# A device that has no room for the whole model, neither to be measured nor to train; cpu:0 stands for it.
SHORT = """
import torch
from paceline.host_binding import HostBinding
from paceline.unit_placement import UnitPlacement

def short(function):
    def called(self, *words):
        if words[-1] is None:  # no unit is named
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return function(self, *words)
    return called

UnitPlacement.placed, HostBinding._bind_all = short(UnitPlacement.placed), short(HostBinding._bind_all)
"""


def test_a_model_that_is_larger_than_its_device_is_measured_part_by_part(tmp_path: Path) -> None:
    program = SHORT + PROGRAM.replace("batch_size=16", "batch_size=16, device='cpu:0'")
    ended = command(tmp_path, program, "profile", "train.py", "--micro-batch", "4", "-o", "profile.toml")
    assert ended.returncode == 0, ended.stderr
    assert "CUDA out of memory; so the profile has no overhead of a micro-batch" in ended.stderr
    assert "in one piece" not in ended.stdout
    profile = (tmp_path / "profile.toml").read_text()
    assert profile.count("[[layer]]") == 6
    assert "overhead" not in profile
    (tmp_path / "two.toml").write_text(devices("memory_mb = 2", "memory_mb = 2"))
    assert len(planned(tmp_path, "two.toml", "--profile", "profile.toml")["replicas"]) == 1
