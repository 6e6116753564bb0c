"""The seed for random numbers before join(), while a program makes its data and its model."""

from __future__ import annotations

import os

VARIABLE = "PACELINE_SEED"


def seed_program() -> None:
    """Seeds a process that Paceline started: all of them with the same number.

    So a random split of the data is one split, and the evaluator does not measure what the workers train on.
    """
    seed = os.environ.pop(VARIABLE, None)  # processes that the program starts draw for themselves
    if seed is None or not seed.isdigit():
        return
    import torch

    from .seeding import seed_others

    # If the seed is small, the program has set it. PyTorch begins with a random one of 53 bits.
    if torch.initial_seed() >> 32 == 0:
        return
    torch.manual_seed(int(seed))
    seed_others(int(seed))
