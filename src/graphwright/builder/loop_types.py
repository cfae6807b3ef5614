"""Types of the loop-carried values of GraphBuilder.loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphwright.builder.errors import fault
from graphwright.builder.regions import Scope
from graphwright.ir.graph import Value
from graphwright.ir.inference.loop_types import MAX_ROUNDS, DtypesDiffer, widened
from graphwright.ir.symbols import SymbolTable
from graphwright.ir.types import TensorType


def loop_region(
    symbols: SymbolTable,
    starts: Sequence[TensorType],
    build: Callable[[Sequence[TensorType]], Scope],
    following: Callable[[Scope], Sequence[Value]],
) -> Scope:
    """The body that ``build`` makes for types of the loop-carried values that hold in every iteration.
    ``starts`` are their types before the first one, ``following`` are their next values in a body.
    """
    types = list(starts)
    for _ in range(MAX_ROUNDS):
        region = build(types)
        wider = _widened(symbols, starts, types, [value.type for value in following(region)])
        if wider == types:
            return region
        types = wider
    raise fault("loop", f"the shapes of loop-carried values still change after {MAX_ROUNDS} iterations")


def _widened(
    symbols: SymbolTable,
    starts: Sequence[TensorType],
    received: Sequence[TensorType],
    given: Sequence[TensorType],
) -> list[TensorType]:
    wider = []
    for number, types in enumerate(zip(starts, received, given, strict=True)):
        try:
            wider.append(widened(symbols, *types))
        except DtypesDiffer as error:
            raise fault("loop", f"loop-carried value {number} {error}") from None
    return wider
