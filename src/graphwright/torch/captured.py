"""Finds the graphs that dynamo captured for a function or module returned by ``torch.compile``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import CodeType
from typing import Any

import torch
from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list
from torch._dynamo.eval_frame import OptimizedModule, innermost_backend
from torch._dynamo.symbolic_convert import InstructionTranslator

_GRAPH, _RESUMED = "__compiled_fn_", "__resume_at_"
"""The prefixes of dynamo's names for graphs, and for functions that continue after a graph break."""


def current_backend() -> Any:
    """The backend for which dynamo captures a graph at the moment; None outside of a capture."""
    try:
        return innermost_backend(InstructionTranslator.current_tx().output.compiler_fn)  # type: ignore[arg-type]
    except AttributeError:  # this thread does not capture a graph
        return None


def backend_of(compiled: Any) -> Any:
    """The backend that ``torch.compile`` made for ``compiled``. Raises TypeError for anything else."""
    if isinstance(compiled, OptimizedModule):
        return innermost_backend(compiled.dynamo_ctx.callback)  # type: ignore[arg-type]
    wrapper = _wrapper(compiled)
    return innermost_backend(inspect.getclosurevars(wrapper).nonlocals["callback"])


def graph_names(compiled: Any) -> set[str]:
    """Dynamo's names of the graphs that calls of ``compiled`` may run. Graphs of inner functions are left
    out: they may have been captured for another compiled function with the same options.
    """
    function = _function(compiled)
    names: set[str] = set()
    if function is not None:
        _add_names(function.__code__, function.__globals__, names, set())
    return names


def _add_names(code: CodeType, namespace: dict[str, Any], names: set[str], seen: set[CodeType]) -> None:
    seen.add(code)
    for entry in _debug_get_cache_entry_list(code):
        names.update(each for each in entry.code.co_names if each.startswith(_GRAPH))
        for each in entry.code.co_names:
            resumed = namespace.get(each) if each.startswith(_RESUMED) else None
            if resumed is not None and resumed.__code__ not in seen:
                _add_names(resumed.__code__, namespace, names, seen)


def _wrapper(compiled: Any) -> Callable[..., Any]:
    """The wrapper that ``torch.compile`` returned. Raises TypeError."""
    wrapper: Any = (
        getattr(compiled, "_compiled_call_impl", None) if isinstance(compiled, torch.nn.Module) else compiled
    )
    if not hasattr(wrapper, "_torchdynamo_orig_callable"):
        raise TypeError(f"report takes the result of torch.compile, not {type(compiled).__name__}")
    wrapped: Callable[..., Any] = wrapper
    return wrapped


def _function(compiled: Any) -> Any:
    """The Python function whose frames dynamo compiles; None if there is none."""
    held = compiled._orig_mod if isinstance(compiled, OptimizedModule) else compiled
    if isinstance(held, torch.nn.Module):
        return type(held).forward
    while hasattr(held, "_torchdynamo_orig_callable"):
        held = held._torchdynamo_orig_callable
    held = inspect.unwrap(held)
    return getattr(held, "__func__", held) if hasattr(held, "__code__") else None
