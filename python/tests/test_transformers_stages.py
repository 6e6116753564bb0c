"""A Trainer of transformers in a job that cuts its model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from fake_member import Member

pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("accelerate", reason="accelerate is not installed, and a Trainer of transformers needs it")

CUT = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM, TrainingArguments
from paceline.integrations.transformers import PacelineTrainer

data = [{"input_ids": row, "labels": row} for row in torch.randint(64, (24, 9))]
model = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
                                     num_attention_heads=2, num_key_value_heads=1))
def say(layer, inputs):
    print("computes in autocast:", torch.is_autocast_enabled("cpu"), "checkpointed:", layer.gradient_checkpointing)
model.model.layers[1].register_forward_pre_hook(say)
options = dict(per_device_train_batch_size=4, use_cpu=True, bf16=ASKED, gradient_checkpointing=ASKED)
PacelineTrainer(model, TrainingArguments("out", **options), train_dataset=data).train()
"""


@pytest.mark.parametrize("asked", [True, False])
def test_a_model_is_measured_as_it_is_trained(tmp_path: Path, asked: bool) -> None:
    script = CUT.replace("ASKED", str(asked))
    with Member(tmp_path, script, role="probe", preload="transformers.trainer", stages=True, profile=2) as member:
        model = member.take_model()
        assert len(model["units"]) == len(model["profile"]["units"]) == 2
        assert model["libraries"].startswith(f"PyTorch {torch.__version__}, transformers ")
        assert member.end() == 0, member.log
    said = {line for line in member.log.splitlines() if line.startswith("computes")}
    assert said == {f"computes in autocast: {asked} checkpointed: {asked}"}
