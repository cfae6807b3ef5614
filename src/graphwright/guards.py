"""Models whose programs assume something of sizes: the form for shapes that break such a guard."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from weakref import WeakValueDictionary

from graphwright.errors import Collector, FeedError, ModelError
from graphwright.ir.clone import clone_module
from graphwright.ir.graph import Module
from graphwright.ir.sizes import scaled_symbol
from graphwright.ir.symbols import Constraint, Dim, SymbolError, evaluate, names_in, parse_constraint
from graphwright.ir.text import print_module
from graphwright.package.package import Package
from graphwright.package.weights import UnpackedWeights
from graphwright.passes.bind_sizes import bind_sizes, shape_all_inputs
from graphwright.records import replace
from graphwright.runtime.devices.base import Device, Shapes

Compile = Callable[[Module, bool], Device]
"""Compiles a module; whether it may assume something of sizes that elements decide."""


class Forms:
    """Compiles ``general``, which assumes nothing, with the sizes of a feed that break a guard as numbers.

    All other sizes stay open, so that one form serves every feed that breaks the same guards in the same way.
    """

    def __init__(self, general: Module, guards: Iterable[str], compile: Compile) -> None:
        self._general, self._compile = general, compile
        self._guards = [parse_constraint(text) for text in guards]
        self._made: WeakValueDictionary[object, Device] = WeakValueDictionary()
        self._lock = threading.Lock()

    def __call__(self, shapes: Shapes) -> Device:
        """The form for inputs of ``shapes``. Raises FeedError where they do not fit the model."""
        inputs = self._general.main.inputs
        if any(value.type.shape is None for value in inputs):
            return self._form(shapes, lambda module: shape_all_inputs(module, shapes), True)
        broken = sizes_that_break(self._guards, _sizes(self._general, shapes))
        return self._form(
            tuple(sorted(broken.items())), lambda module: bind_sizes(module, broken), bool(broken)
        )

    def _form(self, key: object, bind: Callable[[Module], None], assume: bool) -> Device:
        with self._lock:
            device = self._made.get(key)
            if device is None:
                module = clone_module(self._general)
                try:
                    bind(module)
                    device = self._made[key] = self._compile(module, assume)
                except ModelError as error:
                    raise _misfit(error) from error
            return device


def with_general(package: Package, general: Module) -> Package:
    """``package`` with the ``general`` graph, and the constants of it that it neither has nor can unpack."""
    packed = {(how.source, how.shape) for how in package.weights.packings.values()}
    held = {ref.digest: general.constants.held(ref) for ref in general.constants}
    missing = {
        name: array
        for name, array in held.items()
        if name not in package.weights.tensors and (name, array.shape) not in packed
    }
    spare = package.spare

    def extended() -> UnpackedWeights:
        return UnpackedWeights({**missing, **spare().arrays})

    return replace(package, general=print_module(general, constants="short"), spare=extended)


def sizes_that_break(guards: Sequence[Constraint], sizes: Mapping[str, int]) -> dict[str, Dim]:
    """The sizes, of those given by name, that have to be numbers for no guard to be broken.

    Of two sizes that were taken to be equal, it is the one that is 1 where one is: the other may vary.
    """
    found: dict[str, Dim] = {}
    for guard in guards:
        if guard.broken_by(sizes) is not None:
            ones = [side for side in (guard.left, guard.right) if _is_one(side, sizes)]
            names = names_in(*ones) or guard.names
            found |= {name: sizes[name] for name in sorted(names)}
    return found


def _is_one(dim: Dim, sizes: Mapping[str, int]) -> bool:
    try:
        return not isinstance(dim, int) and evaluate(dim, sizes) == 1
    except SymbolError:
        return False


def _sizes(module: Module, shapes: Shapes) -> dict[str, int]:
    """The symbols' numbers for inputs of ``shapes``."""
    sizes: dict[str, int] = {}
    for value, shape in zip(module.main.inputs, shapes, strict=True):
        for dim, size in zip(value.type.dims, shape, strict=True):
            scaled = scaled_symbol(dim)
            if scaled is not None:
                sizes.setdefault(scaled[0], size // scaled[1])
    return sizes


def _misfit(error: ModelError) -> FeedError:
    """That a feed does not fit the model, as ``error`` shows for its sizes."""
    faults = Collector(FeedError)
    for each in error.diagnostics:
        faults.add("constraint", f"these shapes do not fit the model: {each.message}", each.where, each.hint)
    return FeedError(*faults.diagnostics)
