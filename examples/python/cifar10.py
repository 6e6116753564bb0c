"""A residual network on CIFAR-10, with augmentation, batch norm and a schedule of steps.

paceline data cifar10 data/cifar10                          # fetches it
paceline run cifar10.py --devices 4 --policy cgp
"""

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import paceline

MEAN = torch.tensor([0.4914, 0.4822, 0.4465]).view(3, 1, 1)
DEVIATION = torch.tensor([0.2470, 0.2435, 0.2616]).view(3, 1, 1)


class Cifar10(torch.utils.data.Dataset):
    """Records of a label and 3,072 pixels. Crops and flips follow from the sample alone."""

    def __init__(self, path: Path, augment: bool) -> None:
        records = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8).view(-1, 3073)
        self.labels = records[:, 0].long()
        self.images = records[:, 1:].view(-1, 3, 32, 32)
        self.augment = augment

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        image = (self.images[index].float() / 255 - MEAN) / DEVIATION
        if self.augment:
            top, left = torch.randint(0, 9, (2,)).tolist()
            image = F.pad(image, (4, 4, 4, 4))[:, top : top + 32, left : left + 32]
            if torch.rand(()) < 0.5:
                image = image.flip(2)
        return image, self.labels[index]


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(outputs)
        self.past = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if inputs != outputs else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = F.relu(self.first_norm(self.first(x)))
        return F.relu(self.second_norm(self.second(inner)) + self.past(x))


def network() -> nn.Sequential:
    blocks = [Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2)]
    stem = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default="data")
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--loaders", type=int, default=1)
    arguments = parser.parse_args()

    torch.manual_seed(1)
    device = paceline.device()
    train_set = Cifar10(arguments.data / "cifar10" / "data_batch_1.bin", augment=True)
    test_set = Cifar10(arguments.data / "cifar10" / "test_batch.bin", augment=False)
    model = network().to(device)

    def evaluate() -> dict[str, float]:
        loss = right = 0.0
        for x, y in torch.utils.data.DataLoader(test_set, batch_size=250):
            x, y = x.to(device), y.to(device)
            scores = model(x)
            loss += F.cross_entropy(scores, y, reduction="sum").item()
            right += (scores.argmax(1) == y).sum().item()
        return {"loss": loss / len(test_set), "accuracy": right / len(test_set)}

    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(1, round(arguments.epochs)))
    job = paceline.join(
        model,
        train_set,
        optimizer=optimizer,
        schedule=schedule,
        evaluate=evaluate,
        batch_size=32,
        epochs=arguments.epochs,
        num_workers=arguments.loaders,
    )
    for x, y in job:
        scores = model(x)
        loss = F.cross_entropy(scores, y)
        loss.backward()
        job.step(loss, {"right": (scores.argmax(1) == y).float().mean()})


if __name__ == "__main__":
    main()
