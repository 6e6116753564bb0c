"""The program's own measurement of a model."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Callable

import torch
from torch import nn

from .devices import device
from .errors import PacelineError, give_hint
from .measures import measured
from .session import session

Evaluate = Callable[..., Any]


def takes_model(evaluate: Evaluate) -> bool:
    """evaluate(model), or evaluate(); anything else is a mistake."""
    try:
        parameters = inspect.signature(evaluate).parameters.values()
    except (TypeError, ValueError):
        return False
    needed = [p for p in parameters if _is_needed(p)]
    keywords = [p for p in parameters if p.kind == p.KEYWORD_ONLY and p.default is p.empty]
    if len(needed) > 1 or keywords:
        raise PacelineError("evaluate takes the model or nothing; it is called as evaluate(model) or evaluate()")
    return len(needed) == 1


def _is_needed(parameter: inspect.Parameter) -> bool:
    kinds = (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    return parameter.kind in kinds and parameter.default is parameter.empty


def measure(evaluate: Evaluate, model: nn.Module) -> dict[str, float | None]:
    """Calls it in evaluation mode, without gradients, and leaves the model in the mode that it had."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    wanted = takes_model(evaluate)
    try:
        with torch.no_grad():
            result = evaluate(model) if wanted else evaluate()
    except RuntimeError as error:
        _explain(error, model)
        raise
    except TypeError as error:
        if wanted:
            _explain_argument(error, evaluate, model)
        raise
    finally:
        for module, training in modes:
            module.training = training
    if result is None:
        raise PacelineError("evaluate returned nothing; let it return the loss, or a dict of numbers")
    if isinstance(result, (tuple, list)):
        raise PacelineError(
            f"evaluate returned a {type(result).__name__}, and its numbers need names; let it return a dict, such as "
            '{"loss": loss, "accuracy": accuracy}'
        )
    if isinstance(result, Mapping) and not result:
        raise PacelineError("evaluate returned an empty dict; let it return the loss, or a dict of numbers")
    return measured(result if isinstance(result, Mapping) else {"loss": result})


def _explain_argument(error: TypeError, evaluate: Evaluate, model: nn.Module) -> None:
    """Another function than evaluate(model) may have one argument, too: validate(loader), test(epoch)."""
    [name] = [p.name for p in inspect.signature(evaluate).parameters.values() if _is_needed(p)]
    if not name.lower().endswith(("model", "net", "network", "module")) and f"'{type(model).__name__}'" in str(error):
        give_hint(
            error, f"evaluate is called with the model, which is its {name} here: let it take the model or nothing"
        )


def _explain(error: RuntimeError, model: nn.Module) -> None:
    """The evaluator of a job with stages is the one process whose model need not be on device()."""
    here, own = session(), next(model.parameters()).device
    if here is not None and here.stages and own != device() and device().type in str(error):
        give_hint(
            error,
            f"in a job with stages the evaluator computes where the program built the model, which is {own} here: "
            "move batches to next(model.parameters()).device, or set evaluate.device",
        )
