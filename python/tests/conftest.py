import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

# As in the programs: sums of more threads run in another order.
torch.set_num_threads(1)
