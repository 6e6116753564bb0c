"""All random numbers follow from the seeds that Paceline sends, in every process."""

from __future__ import annotations

import random
import sys

import torch

_MASK = (1 << 64) - 1
_EVALUATION = 0x6576616C  # makes the seed of evaluations another one than those of steps


def mix(*values: int) -> int:
    """One seed of several numbers (splitmix64)."""
    state = 0
    for value in values:
        state = (state ^ (value & _MASK)) & _MASK
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state


def seed_step(seed: int, device: torch.device, others: bool = True) -> None:
    """Before an iteration: dropout and whatever else the model draws, on every device.

    `others`: the generators of Python and NumPy, too.
    """
    seed &= _MASK
    if device.type in ("cpu", "cuda"):
        # torch.manual_seed() takes a hundred times as long.
        torch.default_generator.manual_seed(seed)
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            for generator in torch.cuda.default_generators:
                generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)
    if others:
        seed_others(seed)


def seed_evaluation(seed: int, device: torch.device) -> None:
    """All evaluations of the job with this seed draw the same numbers, in whichever process."""
    seed_step(mix(seed, _EVALUATION), device)


def seed_sample(augment_seed: int, index: int) -> None:
    """Before a sample is read: its augmentation. The CPU's generators only, as this happens for every sample."""
    seed = mix(augment_seed, index)
    torch.default_generator.manual_seed(seed)
    seed_others(seed)


def others_now() -> object:
    """The state of the generators that seed_others() seeds, to be compared."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return random.getstate()
    _, numbers, position, *_ = numpy.random.get_state()
    return random.getstate(), numbers.tobytes(), position


def seed_others(seed: int) -> None:
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed & 0xFFFFFFFF)
