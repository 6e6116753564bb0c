"""Programs for the tests, as text."""

HEAD = """\
import random, sys
import torch
import torch.nn.functional as F
from torch import nn
import paceline

torch.manual_seed(3)

class Points(torch.utils.data.Dataset):
    def __init__(self, count=64):
        generator = torch.Generator().manual_seed(5)
        self.x = torch.randn(count, 6, generator=generator)
        self.y = torch.randint(0, 3, (count,), generator=generator)
    def __len__(self):
        return len(self.y)
    def __getitem__(self, index):
        return self.x[index], self.y[index]

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.norm = nn.BatchNorm1d(8)
        self.last = nn.Linear(8, 3)
    def forward(self, x):
        return self.last(F.relu(self.norm(self.first(x))))

def loss_of(model, x, y):
    return F.cross_entropy(model(x), y)
"""

LOOP = """
for x, y in job:
    loss = loss_of(model, x, y)
    loss.backward()
    job.step(loss)
"""

PLAIN = (
    HEAD
    + """
model = Net()
job = paceline.join(model, Points())
"""
    + LOOP
    + """
print("after the loop")
"""
)
