"""The device that run() is given."""

from __future__ import annotations

import re

import pytest
import torch

from paceline.errors import PacelineError
from paceline.wishes import Wishes


def checked(device: object) -> Wishes:
    wishes = Wishes(device=device)
    wishes.check()
    return wishes


def test_a_device_may_be_a_text_or_a_device() -> None:
    assert checked("cpu").device == checked(torch.device("cpu")).device == torch.device("cpu")
    assert checked(None).device is None


@pytest.mark.parametrize("device", ["meta", "gpu", 1.5, "cuda:x"])
def test_what_is_no_device_to_train_on_is_refused(device: object) -> None:
    with pytest.raises(PacelineError, match=re.escape(f"device = {device!r} is no device to train on; write")):
        checked(device)


def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(PacelineError, match="PyTorch sees no GPU here; write device=paceline.device()"):
        checked("cuda")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    with pytest.raises(PacelineError, match="PyTorch sees 2 GPUs here"):
        checked("cuda:2")
    assert checked("cuda").device == torch.device("cuda", 0)
    assert checked("cuda:1").device == torch.device("cuda", 1)
