"""Jobs whose models have frozen tensors: each process has its own, and the run's folder keeps them once."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from live_job import exported, needs_paceline, only_run, paceline, read_safetensors, replay, train, trained

pytestmark = needs_paceline

# A program with frozen layers of two kinds, and a large buffer.
PROGRAM = """
import os, sys, torch, torch.nn as nn, torch.nn.functional as F
import paceline

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8)).requires_grad_(False)
        self.blocks = nn.ModuleList([nn.Linear(8, 8) for _ in range(4)])
        self.blocks[1].weight.requires_grad_(False)
        self.out = nn.Linear(8, 1)
        self.register_buffer("table", torch.arange(300_000))
        self.register_buffer("count", torch.tensor(3))
    def forward(self, x):
        x = self.base(x)
        for block in self.blocks:
            x = torch.tanh(block(x))
        return self.out(x)

torch.manual_seed(0)
x = torch.randn(24, 6)
data = torch.utils.data.TensorDataset(x, x[:, :1])
seed = int(os.environ.get("BASE_SEED", "1"))
if {other!r} in os.environ.get("PACELINE_WHO", "") or {other!r} == "all":
    seed += 1
torch.manual_seed(seed)
model = Net()
def loss(model, batch):
    x, y = batch
    return F.mse_loss(model(x), y)
def evaluate(model):
    with torch.no_grad():
        return loss(model, (x, x[:, :1]))
optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.1)
paceline.run(model, data, loss, evaluate, optimizer=optimizer, batch_size=4, epochs={epochs})
"""


def program(other: str = "nobody", epochs: float = 1) -> str:
    return PROGRAM.format(other=other, epochs=epochs)


def plain(batch: int) -> dict[str, torch.Tensor]:
    """The program without Paceline, on the batches that a job of one worker has; and the order does not matter for one."""
    scope: dict[str, object] = {}
    source = program().replace("import paceline\n", "").split("paceline.run(")[0]
    exec(source, scope)
    model = scope["model"]
    assert isinstance(model, torch.nn.Module)
    loss = scope["loss"]
    assert callable(loss)
    optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.1)
    x = scope["x"]
    assert isinstance(x, torch.Tensor)
    for _ in range(24 // batch):
        optimizer.zero_grad()
        loss(model, (x, x[:, :1])).backward()
        optimizer.step()
    return dict(model.state_dict())


def goes_on(folder: Path, run: Path, *options: str, **environment: str) -> tuple[int, str]:
    import os
    import subprocess

    from live_job import PACELINE
    from live_job import environment as usual

    done = subprocess.run(
        [PACELINE, "train", "--resume", str(run), *options],
        cwd=folder,
        env={**usual(), **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert os.path.isdir(run)
    return done.returncode, done.stderr


@pytest.mark.parametrize("how", [[], ["--virtual"]])
def test_an_export_has_the_frozen_tensors(tmp_path: Path, how: list[str]) -> None:
    # One batch has all samples, so a plain loop has the same batches.
    more = ["--set", "batch=24", *how]
    run = trained(tmp_path, program().replace("batch_size=4, ", ""), 1, more)
    expected = plain(24)
    found = exported(tmp_path, run)
    assert set(found) == set(expected)
    for name, value in expected.items():
        if name.startswith("base") or name in ("blocks.1.weight", "table", "count"):
            assert torch.equal(found[name], value), name
        else:
            assert torch.allclose(found[name], value, rtol=1e-5, atol=1e-6), name
    replay(tmp_path, run)


def test_frozen_tensors_are_no_part_of_checkpoints(tmp_path: Path) -> None:
    run = trained(tmp_path, program(), 2)
    said = json.loads((run / "program.json").read_text())
    frozen = {tensor["name"] for tensor in said["frozen"]}
    assert frozen == {"base.0.weight", "base.0.bias", "base.2.weight", "base.2.bias", "blocks.1.weight", "table"}
    assert set(json.loads((run / "frozen.json").read_text())) == frozen
    kept = set(read_safetensors(run / "frozen.safetensors"))
    assert kept == frozen
    [weights] = [*(run / "checkpoints").glob("v*/weights-1-of-1.safetensors")][-1:]
    data = weights.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert "out.weight" in header and not frozen & set(header)
    assert not [*run.glob("frozen.*.partial")]


def test_only_what_was_trained(tmp_path: Path) -> None:
    run = trained(tmp_path, program(), 1, ["--set", "checkpoint.frozen=false"])
    assert not (run / "frozen.safetensors").exists()
    refused = paceline(tmp_path, "export", str(run), "model.safetensors")
    assert refused.returncode == 2 and "--trainable" in refused.stderr, refused.stderr
    assert "checkpoint.frozen = false" in refused.stderr and "led the run first" in refused.stderr, refused.stderr
    ended = paceline(tmp_path, "export", str(run), "part.safetensors", "--trainable")
    assert ended.returncode == 0, ended.stderr
    names = set(read_safetensors(tmp_path / "part.safetensors"))
    assert names == {"out.weight", "out.bias", "blocks.1.bias"} | {
        f"blocks.{i}.{key}" for i in (0, 2, 3) for key in ("weight", "bias")
    }


def test_workers_with_other_values(tmp_path: Path) -> None:
    """One of them has another base."""
    source = program().replace("seed = int(", "from paceline.session import session\nwho = session()\nseed = int(")
    source = source.replace(
        "torch.manual_seed(seed)", "torch.manual_seed(seed + (who is not None and who.name == 'w1'))"
    )
    ended = train(tmp_path, source, 2)
    assert "w1 has other values of" in ended.stderr or "w0 has other values of" in ended.stderr, ended.stderr
    assert "'base.0.weight' and 4 more tensors" in ended.stderr and "torch.manual_seed" in ended.stderr


def test_an_evaluator_with_other_values(tmp_path: Path) -> None:
    source = program().replace(
        "torch.manual_seed(seed)",
        "from paceline.session import session\nwho = session()\n"
        "torch.manual_seed(seed + (who is not None and who.role == 'evaluator'))",
    )
    ended = train(tmp_path, source, 1)
    said = "evaluator was lost (train.py:37: base.0.weight and 4 more tensors are frozen, with other values"
    assert said in " ".join(ended.stderr.split()), ended.stderr


def test_a_run_goes_on_with_its_own_values_only(tmp_path: Path) -> None:
    run = trained(tmp_path, program(epochs=2), 1)
    for name in sorted((run / "checkpoints").iterdir())[1:]:  # back to the first
        for file in name.iterdir():
            file.unlink()
        name.rmdir()
    status, said = goes_on(tmp_path, run, BASE_SEED="5")
    assert status == 2 and "base.0.weight and 4 more tensors" in said, said
    assert (
        f"paceline export {run} model.safetensors, then --resume with --set model.weights=model.safetensors" in said
    )
    exported(tmp_path, run)
    status, said = goes_on(tmp_path, run, "--set", "model.weights=model.safetensors", BASE_SEED="5")
    assert status == 0, said


def test_a_run_that_begins_with_a_file(tmp_path: Path) -> None:
    """The frozen tensors are the file's, whatever each process has built; later, the run's own copy will do."""
    first = trained(tmp_path, program(), 1)
    values = exported(tmp_path, first)
    (tmp_path / "model.safetensors").rename(tmp_path / "start.safetensors")
    source = program(epochs=2).replace(
        "torch.manual_seed(seed)", "torch.manual_seed(int.from_bytes(os.urandom(4), 'big'))"
    )
    (tmp_path / "second").mkdir()
    run = trained(tmp_path / "second", source, 2, ["--set", f"model.weights={tmp_path / 'start.safetensors'}"])
    found = exported(tmp_path / "second", run)
    for name in ("base.0.weight", "base.2.bias", "blocks.1.weight", "table"):
        assert torch.equal(found[name], values[name]), name
    assert not torch.equal(found["out.weight"], values["out.weight"])
    (tmp_path / "start.safetensors").unlink()
    for name in sorted((run / "checkpoints").iterdir())[1:]:
        for file in name.iterdir():
            file.unlink()
        name.rmdir()
    status, said = goes_on(tmp_path / "second", run)
    assert status == 0, said


@pytest.mark.parametrize("how", [[], ["--virtual"]])
def test_stages_with_frozen_blocks(tmp_path: Path, how: list[str]) -> None:
    results = []
    one = "[[device]]\n[[pipeline]]\ndevices = ['w0']\nsamples = 4\n"
    two = "[[device]]\ncount = 2\n[[pipeline]]\ndevices = ['w0', 'w1']\ncuts = [2]\nsamples = 4\n"
    for name, devices in (("one", one), ("two", two)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "train.py").write_text(program().replace("batch_size=4, ", ""))
        (folder / "job.toml").write_text(
            f"parallel = 'static'\nmicro_batch = 2\nruns_dir = 'runs'\n[program]\nrun = 'train.py'\npython = '{sys.executable}'\n{devices}"
        )
        done = paceline(folder, "train", "job.toml", *how)
        assert done.returncode == 0, done.stderr
        results.append(exported(folder, only_run(folder)))
    assert results[0].keys() == results[1].keys()
    for name, value in results[0].items():
        assert torch.equal(results[1][name], value), name


PEFT = """
import torch
from peft import LoraConfig, get_peft_model
from torch import nn
import paceline
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(1)
base = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
                                    num_attention_heads=2, tie_word_embeddings=False))
torch.manual_seed(2)
model = get_peft_model(base, LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
data = [torch.arange(8) + i for i in range(16)]
optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], 1e-2)
job = paceline.join(model, data, optimizer=optimizer, batch_size=4)
for x in job:
    loss = model(input_ids=x, labels=x).loss
    loss.backward()
    job.step(loss)
"""


def test_an_adapter_that_peft_loads(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    run = trained(tmp_path, PEFT, 1)
    (tmp_path / "adapter").mkdir()
    ended = paceline(tmp_path, "export", str(run), "adapter/adapter_model.safetensors", "--trainable")
    assert ended.returncode == 0, ended.stderr
    whole = exported(tmp_path, run)
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2
    )
    config.tie_word_embeddings = False
    torch.manual_seed(1)
    base = transformers.LlamaForCausalLM(config)
    model = peft.PeftModel.from_pretrained(base, str(tmp_path / "adapter"))
    state = model.state_dict()
    assert set(state) == set(whole)
    for name, value in whole.items():
        assert torch.equal(state[name], value), name
    assert any(whole[name].any() for name in whole if "lora_B" in name)
