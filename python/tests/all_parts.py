"""Modules that a model may consist of: PyTorch's own, and those of other packages, each small, with its inputs."""

from __future__ import annotations

import importlib
import sys
import types
import unittest
import warnings
from collections.abc import Iterator
from typing import Any, Callable

import torch
from part import Part, pass_one_batch, positional, random_rows
from parts_of_packages import (
    of_other_packages,
    of_packages_for_pictures_and_graphs,
    of_packages_for_text,
    of_transformers,
)
from torch import nn

MOST = 40  # arguments that a module of PyTorch's own tests is tried with


def of_torchs_own_tests() -> Iterator[Part]:
    """torch.nn with the inputs of PyTorch's own tests. Nothing if this PyTorch comes without them."""
    if "expecttest" not in sys.modules and importlib.util.find_spec("expecttest") is None:
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        sys.modules["expecttest"] = stand_in
    try:
        from torch.testing._internal.common_modules import module_db
    except Exception:
        return
    for info in module_db:
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            samples = info.module_inputs_func(
                info, device="cpu", dtype=torch.float32, requires_grad=False, training=True
            )
        for number, sample in enumerate(samples[:MOST]):
            constructor, forward = sample.constructor_input, sample.forward_input
            if forward is None or constructor.kwargs.get("_random_samples") is not None:
                continue  # made for float64
            part = Part(
                "torch.nn",
                f"{info.name}#{number}",
                lambda info=info, given=constructor: info.module_cls(*given.args, **given.kwargs),
                lambda given=forward: (given.args, given.kwargs),
            )
            if "Lazy" in info.name:
                part.before = pass_one_batch(part)
            yield part


def of_torch() -> Iterator[Part]:
    """Modules that PyTorch's own tests do not list."""
    image = positional(random_rows(2, 4, 6, 6))
    for name, make in {
        "Identity": nn.Identity,
        "Flatten": nn.Flatten,
        "Dropout": nn.Dropout,
        "Dropout2d": nn.Dropout2d,
        "AlphaDropout": nn.AlphaDropout,
        "FeatureAlphaDropout": nn.FeatureAlphaDropout,
        "RReLU": nn.RReLU,
        "FractionalMaxPool2d": lambda: nn.FractionalMaxPool2d(2, output_ratio=0.5),
        "Hardsigmoid": nn.Hardsigmoid,
        "ChannelShuffle": lambda: nn.ChannelShuffle(2),
        "PixelShuffle": lambda: nn.PixelShuffle(2),
        "PixelUnshuffle": lambda: nn.PixelUnshuffle(2),
        "Unfold": lambda: nn.Unfold(2),
        "Unflatten": lambda: nn.Unflatten(1, (2, 2)),
        "Upsample": lambda: nn.Upsample(scale_factor=2),
        "UpsamplingBilinear2d": lambda: nn.UpsamplingBilinear2d(scale_factor=2),
        "CrossMapLRN2d": lambda: nn.CrossMapLRN2d(2),
        "ParameterDict": lambda: _Holder(nn.ParameterDict({"one": nn.Parameter(torch.ones(6))})),
        "ParameterList": lambda: _Holder(nn.ParameterList([nn.Parameter(torch.ones(6))])),
        "ModuleDict": lambda: _Holder(nn.ModuleDict({"one": nn.Linear(6, 6)})),
        "LazyBatchNorm2d": nn.LazyBatchNorm2d,
        "LazyLinear": lambda: nn.LazyLinear(3),
        "channels_last": lambda: nn.Conv2d(4, 4, 3).to(memory_format=torch.channels_last),
        "float64": lambda: _Cast(nn.Linear(6, 3), torch.float64),
        "bfloat16": lambda: _Cast(nn.Linear(6, 3), torch.bfloat16),
        "BatchNorm without statistics": lambda: nn.BatchNorm2d(4, track_running_stats=False),
        "BatchNorm of all batches": lambda: nn.BatchNorm2d(4, momentum=None),
    }.items():
        part = Part("torch.nn", name, make, image)
        if name.startswith("Lazy"):
            part.before = pass_one_batch(part)
            yield Part("torch.nn", f"{name} that has seen no batch", make, image, refused="pass one batch")
        yield part
    words = torch.tensor([[1, 2, 3], [4, 5, 0]])
    yield Part("torch.nn", "EmbeddingBag", lambda: nn.EmbeddingBag(8, 4), positional(words))
    yield Part("torch.nn", "sparse gradients", lambda: nn.Embedding(8, 4, sparse=True), positional(words))
    yield Part("torch.nn", "padding_idx", lambda: nn.Embedding(8, 4, padding_idx=0), positional(words))
    softmax = nn.AdaptiveLogSoftmaxWithLoss
    yield Part(
        "torch.nn",
        "AdaptiveLogSoftmax",
        lambda: softmax(8, 12, [4]),
        positional(random_rows(4, 8), torch.arange(4) * 3),
    )
    layer = lambda: nn.TransformerDecoderLayer(8, 2, 16)  # noqa: E731
    yield Part(
        "torch.nn",
        "TransformerDecoder",
        lambda: nn.TransformerDecoder(layer(), 2),
        positional(random_rows(3, 2, 8), random_rows(3, 2, 8)),
    )


def of_utils() -> Iterator[Part]:
    """Parametrizations, the older hooks, pruning."""
    from torch.nn.utils import parametrizations, parametrize, prune, spectral_norm, weight_norm

    rows = positional(random_rows(5, 6))
    for name, make in {
        "parametrizations.weight_norm": lambda: parametrizations.weight_norm(nn.Linear(6, 4)),
        "parametrizations.spectral_norm": lambda: parametrizations.spectral_norm(nn.Linear(6, 4)),
        "parametrizations.orthogonal": lambda: parametrizations.orthogonal(nn.Linear(6, 6)),
        "parametrizations.orthogonal, householder": lambda: parametrizations.orthogonal(
            nn.Linear(6, 4), orthogonal_map="householder"
        ),
        "weight_norm": lambda: weight_norm(nn.Linear(6, 4)),
        "spectral_norm": lambda: spectral_norm(nn.Linear(6, 4)),
        "a parametrization of one's own": lambda: _registered(parametrize, nn.Linear(6, 6), _Symmetric()),
        "prune.l1_unstructured": lambda: prune.l1_unstructured(nn.Linear(6, 4), "weight", 0.5),
        "prune.random_structured": lambda: prune.random_structured(nn.Linear(6, 4), "weight", 0.5, dim=0),
        "prune, twice": lambda: prune.l1_unstructured(
            prune.random_unstructured(nn.Linear(6, 4), "weight", 0.5), "weight", 0.5
        ),
        "prune.remove": lambda: prune.remove(prune.l1_unstructured(nn.Linear(6, 4), "weight", 0.5), "weight"),
    }.items():
        yield Part("torch.nn.utils", name, make, rows)


def of_hooks() -> Iterator[Part]:
    """Each kind of hook that a module or a tensor may have."""
    rows = positional(random_rows(5, 6))
    state = "_register_state_dict_hook"
    for name, add in {
        "register_forward_pre_hook": lambda m: m.register_forward_pre_hook(lambda m, x: (x[0] * 2,)),
        "register_forward_hook": lambda m: m.register_forward_hook(lambda m, x, out: out * 2),
        "register_full_backward_hook": lambda m: m.register_full_backward_hook(
            lambda m, gi, go: tuple(g if g is None else g * 2 for g in gi)
        ),
        "register_full_backward_pre_hook": lambda m: m.register_full_backward_pre_hook(
            lambda m, go: tuple(g * 2 for g in go)
        ),
        "Tensor.register_hook": lambda m: m.weight.register_hook(lambda g: g * 0.5),
        "Tensor.register_post_accumulate_grad_hook": lambda m: m.weight.register_post_accumulate_grad_hook(_halved),
        "register_state_dict_pre_hook": lambda m: m.register_state_dict_pre_hook(lambda *a: None),
        "register_load_state_dict_post_hook": lambda m: m.register_load_state_dict_post_hook(lambda *a: None),
        state: lambda m: m._register_state_dict_hook(lambda *a: None),
    }.items():
        if hasattr(nn.Module, name) or name.startswith("Tensor") and hasattr(torch.Tensor, name[7:]):
            yield Part("hooks", name, lambda add=add: _with(nn.Linear(6, 4), add), rows)


def of_script() -> Iterator[Part]:
    rows = positional(random_rows(5, 6))
    block = lambda: nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4))  # noqa: E731
    for name, make in {
        "torch.jit.script": lambda: torch.jit.script(block()),
        "torch.jit.trace": lambda: torch.jit.trace(block(), random_rows(5, 6)),
        "torch.jit.script of a recurrent module": lambda: torch.jit.script(nn.LSTMCell(6, 4)),
        "torch.compile": lambda: torch.compile(block(), backend="eager"),
    }.items():
        yield Part("torch.jit, torch.compile", name, make, rows)


def of_quantization() -> Iterator[Part]:
    """Modules that learn how to be quantized."""
    try:
        from torch.ao import quantization as ao
        from torch.ao.nn import qat
    except ImportError:
        return
    rows, image = positional(random_rows(5, 6)), positional(random_rows(2, 3, 6, 6))
    for engine in ("fbgemm", "qnnpack"):
        config = ao.get_default_qat_qconfig(engine)

        def prepared(config: Any = config) -> nn.Module:
            net = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 4))
            net.qconfig = config  # type: ignore[assignment]
            return ao.prepare_qat(net.train())

        whole = Part("torch.ao", f"prepare_qat, {engine}", prepared, rows)
        whole.before = pass_one_batch(whole)
        yield whole
        linear = Part("torch.ao", f"qat.Linear, {engine}", lambda c=config: qat.Linear(6, 4, qconfig=c), rows)
        linear.before = pass_one_batch(linear)
        yield linear
        conv = Part("torch.ao", f"qat.Conv2d, {engine}", lambda c=config: qat.Conv2d(3, 4, 3, qconfig=c), image)
        conv.before = pass_one_batch(conv)
        yield conv
    yield Part(
        "torch.ao",
        "prepare_qat that has seen no batch",
        lambda: qat.Linear(6, 4, qconfig=ao.get_default_qat_qconfig("fbgemm")),
        rows,
        refused="pass one batch",
    )
    yield Part("torch.ao", "FakeQuantize", lambda: ao.FakeQuantize(), rows, before=lambda m: m(random_rows(5, 6)))


def of_tensors() -> Iterator[Part]:
    """Modules of a person's own, with tensors that are not what a layer has."""
    rows = positional(random_rows(5, 6))
    sparse = torch.eye(6).to_sparse()
    for name, make, refused in (
        ("extra state", lambda: _ExtraState(6, 4), ""),
        ("an empty buffer", lambda: _Own(b=torch.empty(0)), ""),
        ("a buffer of integers", lambda: _Own(b=torch.arange(6)), ""),
        ("a mask with infinities", lambda: _Own(b=torch.full((2, 2), -torch.inf)), ""),
        ("a buffer that is None", lambda: _Own(b=None), ""),
        ("a frozen parameter", lambda: _Own(w=nn.Parameter(torch.ones(6), requires_grad=False)), ""),
        ("a parameter without elements", lambda: _Own(w=nn.Parameter(torch.empty(0))), ""),
        ("a parameter without dimensions", lambda: _Own(w=nn.Parameter(torch.ones(()))), ""),
        ("tied parameters", lambda: _Tied(), ""),
        ("a module that is used twice", lambda: _Twice(), ""),
        ("a name of another script", lambda: nn.Sequential(_named("größe 重み"), nn.Tanh()), ""),
        ("a name with spaces and quotes", lambda: nn.Sequential(_named("a 'b' \"c\""), nn.Tanh()), ""),
        ("a complex buffer", lambda: _Own(b=torch.ones(2, dtype=torch.complex64)), "if it need not be saved"),
        ("a complex parameter", lambda: _Own(w=nn.Parameter(torch.ones(2) + 0j)), "keep torch.view_as_real()"),
        ("a sparse buffer", lambda: _Own(b=sparse), "if it need not be saved"),
        ("a complex buffer that is not saved", lambda: _Own(unsaved=torch.ones(2) + 0j), ""),
        ("a sparse buffer that is not saved", lambda: _Own(unsaved=sparse), ""),
        ("a buffer that grows", lambda: _Grows(), "if it need not be saved"),
        ("a buffer that grows and is not saved", lambda: _Grows(saved=False), ""),
        ("two parameters over the same memory", lambda: _Overlapping(), "use one nn.Parameter for both"),
        ("a parameter that comes later", lambda: _Later(), "build the whole model before"),
    ):
        yield Part("tensors of one's own", name, make, rows, refused=refused)


def all_parts() -> Iterator[Part]:
    for family in (
        of_torchs_own_tests,
        of_torch,
        of_utils,
        of_hooks,
        of_script,
        of_quantization,
        of_tensors,
        of_transformers,
        of_other_packages,
        of_packages_for_pictures_and_graphs,
        of_packages_for_text,
    ):
        yield from family()


# Modules for the above.


def _with(module: nn.Module, add: Callable[[Any], object]) -> nn.Module:
    add(module)
    return module


def _halved(parameter: torch.Tensor) -> None:
    assert parameter.grad is not None
    parameter.grad.mul_(0.5)


def _registered(parametrize: Any, module: nn.Module, how: nn.Module) -> nn.Module:
    parametrize.register_parametrization(module, "weight", how)
    return module


def _named(name: str) -> nn.Module:
    module = nn.Module()
    module.register_parameter(name, nn.Parameter(torch.ones(6)))
    module.forward = lambda x: x * module._parameters[name]  # type: ignore[assignment,method-assign]
    return module


class _Symmetric(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.triu() + x.triu(1).transpose(-1, -2)


class _Holder(nn.Module):
    def __init__(self, held: Any) -> None:
        super().__init__()
        self.held = held

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if isinstance(self.held, nn.ModuleDict):
            return self.held["one"](x)
        values = self.held.values() if isinstance(self.held, nn.ParameterDict) else self.held
        return x * sum(values)


class _Cast(nn.Module):
    def __init__(self, module: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.module, self.dtype = module.to(dtype), dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.module(x.to(self.dtype)).float()


class _ExtraState(nn.Linear):
    def get_extra_state(self) -> Any:
        return {"scale": 2.0}

    def set_extra_state(self, state: Any) -> None:
        pass


class _Own(nn.Module):
    def __init__(self, b: Any = ..., w: Any = None, unsaved: Any = None) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 4)
        if b is not ...:
            self.register_buffer("b", b)
        if w is not None:
            self.w = w
        if unsaved is not None:
            self.register_buffer("unsaved", unsaved, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        w = getattr(self, "w", None)
        return y if w is None or w.numel() == 0 else y * torch.view_as_real(w + 0j).sum()


class _Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)
        self.b.weight = self.a.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(self.a(x))


class _Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6))
        self.b = self.a

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(self.a(x))


class _Grows(nn.Module):
    def __init__(self, saved: bool = True) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 4)
        self.register_buffer("seen", torch.zeros(1, 6), persistent=saved)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen = torch.cat([self.seen, x.detach()])
        return self.linear(x)


class _Overlapping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        both = torch.ones(8)
        self.a, self.b = nn.Parameter(both[:6]), nn.Parameter(both[2:])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.a * self.b


class _Later(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not hasattr(self, "late"):
            self.late = nn.Parameter(torch.ones(4))
        return self.linear(x) * self.late
