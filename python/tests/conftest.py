import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

# Tests that run at the same time have cards of their own.
os.environ["PACELINE_STAND_IN_NAME"] = str(os.getpid())
os.environ["PACELINE_STAND_IN_CARDS"] = "2"

import torch

# The programs use one thread too: sums of more threads run in another order.
torch.set_num_threads(1)

# Indices and copies of files are the tests' own.
os.environ["PACELINE_CACHE"] = tempfile.mkdtemp(prefix="paceline-cache-")
atexit.register(shutil.rmtree, os.environ["PACELINE_CACHE"], ignore_errors=True)
