"""Structural equality of modules and graphs; reports the first difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.symbols import Range
from graphwright.ir.text.printer import print_node, same_value


def structurally_equal(a: Module | Graph, b: Module | Graph) -> str | None:
    """None if ``a`` and ``b`` are structurally equal; otherwise the first difference."""
    return next(_differences(a, b), None)


def _differences(a: Module | Graph, b: Module | Graph) -> Iterator[str]:
    if isinstance(a, Graph) and isinstance(b, Graph):
        yield from _graphs(a, b)
    elif isinstance(a, Module) and isinstance(b, Module):
        yield from _modules(a, b)
    else:
        yield f"a {type(a).__name__} and a {type(b).__name__}"


def _modules(a: Module, b: Module) -> Iterator[str]:
    yield from _mappings("metadata", a.metadata, b.metadata)
    yield from _mappings("hint", a.hints, b.hints)
    yield from _mappings("range of symbol", _ranges(a), _ranges(b))
    yield from _mappings("divisor of symbol", a.symbols.multiples, b.symbols.multiples)
    if list(a.symbols.constraints) != list(b.symbols.constraints):
        yield f"constraints {[*map(str, a.symbols.constraints)]} and {[*map(str, b.symbols.constraints)]}"
    if list(a.symbols.guards) != list(b.symbols.guards):
        yield f"guards {[*map(str, a.symbols.guards)]} and {[*map(str, b.symbols.guards)]}"
    if {ref.digest for ref in a.constants} != {ref.digest for ref in b.constants}:
        yield f"constants {[r.digest for r in a.constants]} and {[r.digest for r in b.constants]}"
    yield from _mappings("signature", a.signatures, b.signatures)
    if list(a.graphs) != list(b.graphs):
        yield f"graphs {list(a.graphs)} and {list(b.graphs)}"
        return
    for name in a.graphs:
        yield from _graphs(a.graphs[name], b.graphs[name])


def _ranges(module: Module) -> dict[str, Range]:
    return {name: bounds for name, bounds in module.symbols.ranges.items() if bounds != Range()}


def _mappings(what: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[str]:
    for key in dict.fromkeys((*a, *b)):
        if a.get(key) != b.get(key):
            yield f"{what} {key!r}: {a.get(key)!r} and {b.get(key)!r}"


def _graphs(a: Graph, b: Graph) -> Iterator[str]:
    if a.name != b.name:
        yield f"graphs called {a.name!r} and {b.name!r}"
    same: dict[Value | None, Value | None] = {None: None}
    yield from _values(f"inputs of {a.name}", tuple(a.inputs), tuple(b.inputs), same)
    if len(a) != len(b):
        yield f"{a.name}: {len(a)} and {len(b)} nodes"
    for x, y in zip(a, b, strict=False):
        yield from _nodes(x, y, same)
    if len(a.outputs) != len(b.outputs) or a.output_names != b.output_names:
        yield f"outputs of {a.name}: {a.output_names} and {b.output_names}"
    elif [same.get(v) for v in a.outputs] != list(b.outputs):
        yield f"outputs of {a.name}: {a.outputs} and {b.outputs}"


def _nodes(x: Node, y: Node, same: dict[Value | None, Value | None]) -> Iterator[str]:
    prefix = f"{print_node(x)}\nand {print_node(y)}:"
    if type(x.op) is not type(y.op) or not same_value(x.op, y.op):
        yield f"{prefix} ops {x.op.name} {x.op.attributes()} and {y.op.name} {y.op.attributes()}"
    if len(x.inputs) != len(y.inputs) or any(
        same.get(v, v) is not w for v, w in zip(x.inputs, y.inputs, strict=True)
    ):
        yield f"{prefix} operands"
    if (x.name, x.sources) != (y.name, y.sources):
        yield f"{prefix} names {(x.name, x.sources)} and {(y.name, y.sources)}"
    yield from _values(f"{prefix} outputs", x.outputs, y.outputs, same)
    if len(x.regions) != len(y.regions):
        yield f"{prefix} {len(x.regions)} and {len(y.regions)} regions"
    for r, s in zip(x.regions, y.regions, strict=False):
        yield from _graphs(r, s)


def _values(
    what: str, a: tuple[Value, ...], b: tuple[Value, ...], same: dict[Value | None, Value | None]
) -> Iterator[str]:
    if len(a) != len(b):
        yield f"{what}: {len(a)} and {len(b)}"
    for v, w in zip(a, b, strict=False):
        same[v] = w
        for part in ("name", "type", "layout", "device"):
            if getattr(v, part) != getattr(w, part):
                yield f"{what}: {part} {getattr(v, part)!r} and {getattr(w, part)!r}"
