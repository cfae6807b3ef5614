"""The registry of kernel candidates."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, overload

import graphwright.kernels as kernels
from graphwright.errors import Diagnostic, PluginError
from graphwright.ir.graph import Node
from graphwright.ir.op import Op
from graphwright.ir.op.plugin_ops import defined_at, is_plugin_op
from graphwright.kernels.candidates.context import Candidate, CandidateResult, Context
from graphwright.records import dataclass

A = TypeVar("A", bound=Op)
B = TypeVar("B", bound=Op)


@dataclass(frozen=True)
class _Registered:
    candidate: Candidate
    serves: Callable[[Node[Any]], bool]
    blocks: bool


_CANDIDATES: dict[type[Op], list[_Registered]] = {}


@overload
def candidate(
    op: type[A], /, *, serves: Callable[[Node[A]], bool] = ..., blocks: bool = ...
) -> Callable[[Callable[[Node[A], Context], CandidateResult]], Candidate]: ...


@overload
def candidate(
    op: type[A], other: type[B], /, *, serves: Callable[[Node[A | B]], bool] = ..., blocks: bool = ...
) -> Callable[[Callable[[Node[A | B], Context], CandidateResult]], Candidate]: ...


@overload
def candidate(
    *ops: type[Op], serves: Callable[[Node], bool] = ..., blocks: bool = ...
) -> Callable[[Callable[[Node, Context], CandidateResult]], Candidate]: ...


def candidate(
    *ops: type[Op], serves: Callable[[Node[Any]], bool] = lambda node: True, blocks: bool = False
) -> Callable[[Candidate], Candidate]:
    """Registers a function as a way to compute nodes of ``ops``; it is only called with nodes of these ops.
    Of all candidates that accept a node, the one with the shortest predicted time is chosen; those of plugins
    take precedence.

    ``serves`` returns False for nodes that must be decomposed, as no candidate can compute them. ``blocks``
    says that it accepts operands in blocked layouts; those of plugins always do. Raises PluginError for a
    plugin's candidate for something that is not an op, or for an op that fusion computes from its expression.
    """

    def register(function: Candidate) -> Candidate:
        if is_plugin_op(function):
            _check_registration(function, ops)
        for op in ops:
            registered = _Registered(function, serves, blocks or is_plugin_op(function))
            _CANDIDATES.setdefault(op, []).append(registered)
        return function

    return register


def _check_registration(function: Candidate, ops: tuple[type[Op], ...]) -> None:
    doing = f"kernel {getattr(function, '__name__', function)}"
    where = defined_at(function)
    for op in ops:
        if not (isinstance(op, type) and issubclass(op, Op) and hasattr(op, "name")):
            raise PluginError(Diagnostic("plugin-class", f"{doing}: {op!r} is not a registered op", where))
        if op.expression is not Op.expression:
            hint = "remove one of the two: kernels are generated from the expression"
            message = f"{doing}: {op.name} has an expression, so this kernel would never be used"
            raise PluginError(Diagnostic("plugin-class", message, where, hint))
    if not ops:
        raise PluginError(Diagnostic("plugin-class", f"{doing} is registered for no op", where))


def load() -> None:
    """Imports all candidates once: those of each family of kernels, then those that generate kernels."""
    _load_from(tuple(kernels.__path__))


@cache
def _load_from(folders: tuple[str, ...]) -> None:
    for family in pkgutil.iter_modules(folders):
        if family.ispkg and family.name != "loops":
            _load(f"{kernels.__name__}.{family.name}", "candidates")
    _load(f"{kernels.__name__}.loops", "")


def _load(package: str, ending: str) -> None:
    """Imports the modules of ``package`` whose names end in ``ending``."""
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if module.name.endswith(ending):
            importlib.import_module(f"{package}.{module.name}")


def candidates_of(node: Node) -> list[Candidate]:
    """The candidates for nodes like ``node``, in the order of registration."""
    blocked = any(v is not None and v.layout is not None for v in (*node.inputs, *node.outputs))
    registered = _CANDIDATES.get(type(node.op), ())
    return [each.candidate for each in registered if each.serves(node) and (each.blocks or not blocked)]


def registered_candidates() -> list[tuple[type[Op], Candidate]]:
    """All candidates, with the ops that they are registered for."""
    return [(op, each.candidate) for op, registered in _CANDIDATES.items() for each in registered]
