"""Modules, exported programs and files of PyTorch, as users give them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch.export import ExportedProgram

from graphwright.errors import Diagnostic, ModelError
from graphwright.frontends.torch.decompositions import export_decompositions
from graphwright.frontends.torch.exported import parameter_names, read_program
from graphwright.frontends.torch.source_lines import user_line_of
from graphwright.ir.graph import Module

TorchSource: TypeAlias = torch.nn.Module | ExportedProgram
_HINTS = (
    (
        "data-dependent",
        "write it with torch.cond or torch.where, or let the value be an argument of the module that is the "
        "same in each call",
    ),
    (
        "dynamic_shapes",
        "dynamic_shapes names the parameters of forward, each with a dict by axis: "
        "{'x': {0: torch.export.Dim('batch', max=64)}}",
    ),
)
"""What to do about a refusal whose text has such words."""


def read_source(
    source: TorchSource,
    inputs: Sequence[Any] | None,
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
) -> Module:
    """The module of ``source``: of a torch.nn.Module what ``torch.export`` makes of its ``forward`` for these
    arguments. Raises ModelError.
    """
    if isinstance(source, torch.nn.Module):
        if inputs is None and kwargs is None:
            hint = "as in gw.compile(module, (x,)), or (x,), {'mask': mask}"
            message = "a module is compiled with arguments of its forward, and none are given"
            raise ModelError(Diagnostic("examples", message, hint=hint))
        source = export(source, inputs or (), kwargs, dynamic_shapes)
    elif (inputs, kwargs, dynamic_shapes) != (None, None, None):
        message = "an exported program has its examples and dynamic shapes already"
        raise ModelError(Diagnostic("examples", message, hint="leave them out, or give the module"))
    with _quiet():
        with _refusals("the exported program"):
            program = source.run_decompositions(export_decompositions())
        return read_program(program, parameter_names(source))


def export(
    module: torch.nn.Module, inputs: Sequence[Any], kwargs: Mapping[str, Any] | None, dynamic_shapes: Any
) -> ExportedProgram:
    """The program of ``module``. A ModelError says what ``torch.export`` refuses, and on which line."""
    with _quiet(), _refusals(type(module).__name__):
        return torch.export.export(
            module,
            tuple(inputs),
            None if kwargs is None else dict(kwargs),
            dynamic_shapes=dynamic_shapes,
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Without warnings of calls that PyTorch makes itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


@contextmanager
def _refusals(name: str) -> Iterator[None]:
    """Let what ``torch.export`` raises for the module ``name`` be a ModelError."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:  # the module's own code runs, and raises what it likes
        raise ModelError(_refusal(error, name)) from error


def _refusal(error: Exception, name: str) -> Diagnostic:
    text = str(error).strip()
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    hint = next((hint for word, hint in _HINTS if word in text), "the error above says more")
    message = f"torch.export refuses {name}: {type(error).__name__}: {first}"
    return Diagnostic("export", message, user_line_of(error), hint)
