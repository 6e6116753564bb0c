import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

# Tests that run at the same time have cards of their own.
os.environ["PACELINE_STAND_IN_NAME"] = str(os.getpid())
os.environ["PACELINE_STAND_IN_CARDS"] = "2"

import torch

# The programs use one thread too: sums of more threads run in another order.
torch.set_num_threads(1)
