"""How PEFT names what a PEFT model trains, for `paceline export --trainable`."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from typing import Any

from torch import nn

from .inventory import PARAMETER, Inventory

Names = list[list[str]]  # PEFT's name, the tensor's


def peft_names(inventory: Inventory) -> tuple[Names, dict[str, Any] | None] | None:
    """The names, and the adapter's configuration, which a process without a folder for temporary files does not know.

    None if there is no PEFT model, or more than one.
    """
    peft = sys.modules.get("peft")
    kind = getattr(peft, "PeftModel", None)
    if peft is None or not isinstance(kind, type):
        return None
    models: list[Any] = [module for module in inventory.model.modules() if isinstance(module, kind)]
    if len(models) != 1:
        return None
    model = models[0]
    adapter = _adapter_of(model)
    state = peft.get_peft_model_state_dict(model, adapter_name=adapter, save_embedding_layers=False)
    tensors = {
        (entry.tensor.data_ptr(), entry.shape): entry.name for entry in inventory.entries if entry.kind == PARAMETER
    }
    known = [[name, tensors.get((one.data_ptr(), tuple(one.shape)), "")] for name, one in state.items()]
    return [pair for pair in known if pair[1]], _config_of(model.peft_config[adapter])


def _adapter_of(model: nn.Module) -> str:
    active: Any = model.active_adapter
    return str(active if isinstance(active, str) else active[0])


def _config_of(config: Any) -> dict[str, Any] | None:
    """The file that PEFT itself writes beside an adapter that is complete."""
    # The job does not need it, so it is not refused on a file system that cannot be written.
    with contextlib.suppress(OSError), tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        with open(os.path.join(folder, "adapter_config.json"), encoding="utf-8") as file:
            return {**json.load(file), "inference_mode": True}
    return None
