"""Contractions: what their kernels receive, and the registry of these kernels by op."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from graphwright.ir.graph import Node, OpT, Value
from graphwright.ir.op import Op
from graphwright.ir.symbols import Dim
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.epilogues import Epilogue
from graphwright.kernels.launch import Hook, Launch, Run
from graphwright.kernels.ref import KernelRef
from graphwright.records import dataclass, field

A = TypeVar("A", bound=Op)


@dataclass(frozen=True)
class Contraction(Generic[OpT]):
    """A contraction to be launched: the node, its operands and its result in the outer graph, and its
    epilogue.
    """

    node: Node[OpT]
    operands: tuple[Value | None, ...]
    result: Value | None
    """None if the epilogue stores the result."""
    hook: Hook | None = None
    tiles: Value | None = None
    """A result of the epilogue with one element for each element of the contraction. A kernel may store its
    tiles there, and then call the hook on them in place.
    """
    second: Value | None = None
    """The right factor of a second product with the same left factor; the hook takes tiles of both."""
    epilogue: Epilogue = field(default_factory=Epilogue)
    """The epilogue that the kernel itself must apply when it stores; a candidate that cannot returns the
    reason.
    """

    def operand(self, index: int) -> Value:
        """Operand ``index``, which must be present."""
        value = self.operands[index]
        if value is None:
            raise ValueError(f"operand {index} of {self.node.location} is absent")
        return value

    def launch(
        self,
        symbol: str,
        operands: tuple[Value | None, ...],
        args: Iterable[Dim],
        grid: Dim,
        scratch: Dim,
        work: Dim,
    ) -> Launch:
        """A launch of a library kernel with ``operands``, whose last one is the result, and the hook."""
        result, residual = self.result, self.epilogue.residual
        in_place: tuple[tuple[Value, Value], ...] = ()
        if result is not None and residual is not None and operands.count(residual) == 1:
            in_place = ((result, residual),)
        return Launch(
            KernelRef(symbol),
            operands,
            (len(operands) - 1,) if operands[-1] is not None else (),
            tuple(args),
            grid,
            scratch,
            work,
            takes_hook=True,
            hook=self.hook,
            in_place=in_place,
        )


ContractionCandidate = Callable[[Contraction[Any], Context], Launch | Run | str]
Groups = Callable[[Node], tuple[int, int]]
"""The number of leading dims of a contraction's output that are batch, and the number of following dims that
are rows (see the ABI of hooks).
"""
_CONTRACTIONS: dict[type[Op], tuple[ContractionCandidate, Groups, int]] = {}


def contraction(
    op: type[A], groups: Groups, channel_axis: int
) -> Callable[[Callable[[Contraction[A], Context], Launch | Run | str]], ContractionCandidate]:
    """Registers a function that launches contractions of ``op``, with or without an epilogue.

    ``channel_axis`` is the axis of the output that a bias has.
    """

    def register(function: Callable[[Contraction[A], Context], Launch | Run | str]) -> ContractionCandidate:
        _CONTRACTIONS[op] = (function, groups, channel_axis)
        return function

    return register


def contraction_of(op: Op) -> tuple[ContractionCandidate, Groups, int] | None:
    """The contraction kernel registered for the class of ``op``, its groups and the axis of a bias."""
    return _CONTRACTIONS.get(type(op))


def without_epilogue(node: Node, context: Context) -> Launch | Run | str:
    """A contraction without an epilogue."""
    found = contraction_of(node.op)
    if found is None:
        return f"{node.op.name} has no kernel"
    return found[0](Contraction(node, node.inputs, node.output), context)
