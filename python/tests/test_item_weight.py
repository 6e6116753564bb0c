"""Which Trainers' losses are means over items, and which over samples."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("transformers")

from transformers import Trainer

from paceline.integrations.item_weight import weighs_by_items
from paceline.integrations.transformers import PacelineTrainer


class Samples(PacelineTrainer):
    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **named: Any) -> Any:
        return model(**inputs).logits.mean()


class Ignored(Trainer):
    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        return model(**inputs).logits.mean()


class Divided(Trainer):
    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        return model(**inputs).logits.sum() / num_items_in_batch


class Looked(Trainer):
    def compute_loss(self, model: Any, inputs: Any, *others: Any, **named: Any) -> Any:
        return model(**inputs).logits.sum() / named["num_items_in_batch"]


class HandedOn(PacelineTrainer):
    def compute_loss(self, *arguments: Any, **named: Any) -> Any:
        return super().compute_loss(*arguments, **named) * 2


class Behind(Samples):
    """Has the loss of the class behind it."""


@pytest.mark.parametrize(
    ("trainer", "by_items"),
    [
        (PacelineTrainer, True),
        (Samples, False),
        (Ignored, False),
        (Divided, True),
        (Looked, True),
        (HandedOn, True),
        (Behind, False),
    ],
)
def test_a_loss_weighs_by_items_if_it_can_know_their_number(trainer: type, by_items: bool) -> None:
    assert weighs_by_items(trainer) == by_items
