"""The names and the configuration of a PEFT model, for `paceline export --trainable`. A stand-in has the place of PEFT."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from torch import nn

from paceline.inventory import take_inventory
from paceline.peft_names import peft_names

NAMES = [["adapter.default.weight", "adapter.weight"]]


class Config:
    def save_pretrained(self, folder: str) -> None:
        (Path(folder) / "adapter_config.json").write_text(json.dumps({"r": 8}))


class PeftModel(nn.Module):
    active_adapter = "default"

    def __init__(self) -> None:
        super().__init__()
        self.peft_config = {"default": Config()}
        self.adapter = nn.Linear(2, 2, bias=False)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> PeftModel:
    def state_of(model: PeftModel, **_: Any) -> dict[str, Any]:
        return {"adapter.default.weight": model.adapter.weight}

    peft: Any = ModuleType("peft")
    peft.PeftModel, peft.get_peft_model_state_dict = PeftModel, state_of
    monkeypatch.setitem(sys.modules, "peft", peft)
    return PeftModel()


def test_the_names_and_the_configuration(model: PeftModel) -> None:
    assert peft_names(take_inventory(model)) == (NAMES, {"r": 8, "inference_mode": True})


def test_a_host_without_a_folder_for_temporary_files(model: PeftModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_folder() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr("paceline.peft_names.tempfile", SimpleNamespace(TemporaryDirectory=no_folder))
    assert peft_names(take_inventory(model)) == (NAMES, None)
