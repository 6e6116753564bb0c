"""Settings of TrainingArguments that the job has under names of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_USUAL_SAVE_STEPS = 500  # TrainingArguments'


def hints(args: Any, steps_an_epoch: int) -> Iterator[str]:
    """A line for each that the person has written and that has no effect, with the job's name for it."""

    def epochs(steps: float) -> str:
        """A number below 1 is a part of all steps."""
        return f"{steps / steps_an_epoch if steps >= 1 else steps * args.num_train_epochs:.3g}"

    if args.eval_strategy == "steps":
        yield (
            f"eval_steps={args.eval_steps:g} has no effect: the evaluator measures once an epoch; to measure as "
            f"often, write --set evaluate.every_epochs={epochs(args.eval_steps)}"
        )
    if args.save_strategy == "steps" and args.save_steps != _USUAL_SAVE_STEPS:
        yield (
            f"save_steps={args.save_steps:g} has no effect: the job writes its checkpoints once an epoch; to write "
            f"them as often, write --set checkpoint.every_epochs={epochs(args.save_steps)}"
        )
    if args.save_strategy == "best":
        yield 'save_strategy="best" has no effect: the job keeps its newest checkpoints; leave it out'
    if args.save_total_limit:
        yield (
            f"save_total_limit={args.save_total_limit} has no effect: the job keeps its two newest checkpoints; "
            f"write --set checkpoint.keep={args.save_total_limit}"
        )
