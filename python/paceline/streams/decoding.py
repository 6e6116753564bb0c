"""The values of common kinds of files, by their endings."""

from __future__ import annotations

import io
import json
from typing import Any

import torch

from .files import needs

_IMAGES = ("jpg", "jpeg", "png", "ppm", "pgm", "webp")


def decode_member(ending: str, data: bytes) -> Any:
    """Returns the value: text of txt, a number of cls, an object of json, an array of npy, a tensor or what holds
    them of pt, an RGB image of jpg and png; bytes of any other ending. The last part of an ending counts: seg.png is
    an image. Raises what the reader of the kind raises."""
    kind = ending.rsplit(".", 1)[-1]
    if kind in ("txt", "text", "transcript"):
        return data.decode("utf-8")
    if kind in ("cls", "cls2", "index", "inx", "id"):
        return int(data)
    if kind in ("json", "jsn"):
        return json.loads(data)
    if kind == "npy":
        return needs("numpy", "numpy", "a member .npy").load(io.BytesIO(data), allow_pickle=False)
    if kind in ("pt", "pth"):
        return torch.load(io.BytesIO(data), weights_only=True)
    if kind in _IMAGES:
        image = needs("PIL.Image", "Pillow", f"a member .{kind}").open(io.BytesIO(data))
        image.load()
        return image.convert("RGB")
    return data
