"""Types of one node's outputs, from its op and what is known of its inputs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from graphwright.errors import Diagnostic, GraphwrightError, ModelError
from graphwright.ir.constant import Constant
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.op import Array, Fact, Inference, InferError, Op, UnknownRank, facts_elements
from graphwright.ir.plugin_ops import blamed, defined_at, is_plugin_op
from graphwright.ir.region_op import region_op
from graphwright.ir.symbols import MAX_TERMS, SymbolError, SymbolTable
from graphwright.ir.symbols import evaluate as number_of
from graphwright.ir.types import I32, I64, TensorType, type_of

MAX_BYTES = 2**62
"""A tensor that would need more is refused: its size could not be computed in int64."""


def folded(op: Op, inputs: Sequence[Fact | None]) -> tuple[Op, Sequence[Fact | None]]:
    """``op`` and its inputs after :meth:`Op.fold_operands`; unchanged where there is nothing to move."""
    result = op.fold_operands(*inputs)
    if result is None:
        return op, inputs
    return result[0], [inputs[position] for position in result[1]]


def fact_of(array: Array | None) -> Fact | None:
    """Everything about an array, as a fact."""
    return None if array is None else Fact(type_of(array), facts_elements(array), array)


def evaluate(op: Op, arrays: Sequence[Array | None], place: str = "") -> tuple[Array, ...]:
    """Run ``op`` on its NumPy reference; always a tuple. A ValueError where it cannot take the elements.

    Operands that say sizes, axes or bounds must be what inference allows, else a ModelError names ``place``.
    """
    moved = None if type(op).fold_operands is Op.fold_operands else _folded_arrays(op, arrays, place)
    if moved is not None:
        op, arrays = moved[0], [arrays[position] for position in moved[1]]
    try:
        result = _foreign_results(op, arrays) if is_plugin_op(type(op)) else op.reference(*arrays)
    except InferError as error:
        raise ValueError(str(error)) from error
    except (ArithmeticError, LookupError, TypeError, ValueError):
        if not is_plugin_op(type(op)):
            _say_why(op, arrays, place)
        raise
    return result if isinstance(result, tuple) else (result,)


def _say_why(op: Op, arrays: Sequence[Array | None], place: str) -> None:
    """A ModelError where inference, which says it in better words than NumPy, refuses these operands too."""
    try:
        infer_outputs(op, [fact_of(array) for array in arrays], SymbolTable(), place)
    except ModelError as error:
        if error.diagnostics[0].code != "unknown-rank":
            raise


def _folded_arrays(op: Op, arrays: Sequence[Array | None], place: str) -> tuple[Op, tuple[int, ...]] | None:
    """:meth:`Op.fold_operands`; where sizes, axes or bounds move, inference must allow them."""
    facts = [fact_of(array) for array in arrays]
    try:
        moved = op.fold_operands(*facts)
    except InferError as error:
        raise ModelError(Diagnostic("type", f"{op.source_name}: {error}", place)) from error
    if moved is None:
        return None
    gone = [fact for position, fact in enumerate(facts) if fact is not None and position not in moved[1]]
    if any(fact.dtype in (I32, I64) for fact in gone):
        _check_operands(moved[0], [facts[position] for position in moved[1]], place)
    return moved


def _check_operands(op: Op, operands: Sequence[Fact | None], place: str) -> None:
    """A ModelError where inference refuses ``op``, or the result does not fit into memory."""
    try:
        facts = infer_outputs(op, operands, SymbolTable(), place)
    except ModelError as error:
        if error.diagnostics[0].code == "unknown-rank":
            return
        raise
    for fact in facts:
        if (
            fact.type.is_static
            and number_of(fact.type.elements * fact.type.dtype.bytes, {}) > physical_memory()
        ):
            message = f"{op.source_name}: the result, {fact.type}, is larger than the memory of this machine"
            raise ModelError(Diagnostic("memory", message, place))


@cache
def physical_memory() -> int:
    """Bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class ReferenceFault(ValueError):
    """A user's reference raised, or gave what is not of the type that ``infer`` says."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(f"{diagnostic.message} ({diagnostic.where})")
        self.diagnostic = diagnostic


def _foreign_results(op: Op, arrays: Sequence[Array | None]) -> tuple[Array, ...]:
    cls = type(op)
    if cls.reference is Op.reference:
        raise ReferenceFault(Diagnostic("reference", f"{op.name} has no reference", defined_at(cls)))
    try:
        result = op.reference(*arrays)
    except Exception as error:
        raise ReferenceFault(blamed(error, cls, f"{op.name}.reference")) from error
    results = result if isinstance(result, tuple) else (result,)
    if len(results) != op.output_count():
        message = f"{op.name}.reference gives {len(results)} results for {op.output_count()} outputs"
        raise ReferenceFault(Diagnostic("reference", message, defined_at(cls.reference)))
    made: list[Any] = [r if isinstance(r, list | None) else np.asarray(r) for r in results]
    return tuple(made)


def check_results(op: Op, results: Sequence[Any], types: Sequence[TensorType]) -> None:
    """A ReferenceFault where a result of ``op`` is not of its type; sizes that are no numbers may be any."""
    for number, (result, type_) in enumerate(zip(results, types, strict=True)):
        if isinstance(result, np.ndarray) and not _fits(result, type_):
            message = f"{op.name}.reference gives {type_of(result)} for output {number}, infer says {type_}"
            raise ReferenceFault(Diagnostic("reference", message, defined_at(type(op).reference)))


def _fits(array: Array, type: TensorType) -> bool:
    if array.dtype != type.dtype.numpy:
        return False
    if type.shape is None:
        return True
    sizes = zip(array.shape, type.shape, strict=False)
    return array.ndim == len(type.shape) and all(
        have == want for have, want in sizes if isinstance(want, int)
    )


def infer_outputs(
    op: Op,
    inputs: Sequence[Fact | None],
    symbols: SymbolTable,
    place: str,
    known: Sequence[TensorType] = (),
    regions: Sequence[Sequence[Fact]] = (),
    received: Sequence[Sequence[Fact]] = (),
) -> tuple[Fact, ...]:
    """Facts of the outputs; a ModelError with ``place`` where types conflict.

    ``known`` serves where a rank is unknown; ``regions`` are the facts of each region's outputs, ``received``
    those of its inputs.
    """
    try:
        op.verify()
        if regions:
            result: object = region_op(op).infer_regions(Inference(symbols, place, inputs, received), regions)
        else:
            op, inputs = folded(op, inputs)
            result = op.infer(Inference(symbols, place), *inputs)
    except UnknownRank:
        if not known:
            raise ModelError(
                Diagnostic(
                    "unknown-rank",
                    f"{op.source_name}: the number of axes of an operand is not known",
                    place,
                    "give the sizes of the model's inputs with shapes=",
                )
            ) from None
        return tuple(Fact(TensorType(t.dtype, None)) for t in known)
    except InferError as error:
        raise ModelError(Diagnostic("type", f"{op.source_name}: {error}", place)) from error
    except SymbolError as error:
        hint = f"sizes are kept to {MAX_TERMS} terms" if "terms" in str(error) else ""
        raise ModelError(Diagnostic("size", f"{op.source_name}: {error}", place, hint)) from error
    except GraphwrightError:
        raise
    except Exception as error:
        if not is_plugin_op(type(op)):
            raise
        raise ModelError(_blamed_infer(error, op, place)) from error
    outputs = result if isinstance(result, tuple) else (result,)
    if is_plugin_op(type(op)):
        _check_facts(op, outputs, place)
    facts = tuple(out if isinstance(out, Fact) else Fact(out) for out in outputs)
    for fact in facts:
        _check_size(fact.type, op, place)
    return facts


def _blamed_infer(error: Exception, op: Op, place: str) -> Diagnostic:
    cls = type(op)
    if cls.infer is Op.infer:
        return Diagnostic("plugin", f"{op.name} has no infer (node {place})", defined_at(cls))
    fault = blamed(error, cls, f"{op.name}.infer")
    return Diagnostic(fault.code, f"{fault.message} (node {place})", fault.where)


def _check_facts(op: Op, outputs: Sequence[object], place: str) -> None:
    """A ModelError where a user's ``infer`` does not give a type for each output."""
    given = ", ".join(type(out).__name__ for out in outputs)
    if len(outputs) != op.output_count() or not all(isinstance(out, Fact | TensorType) for out in outputs):
        message = (
            f"{op.name}.infer gives {given} instead of a TensorType for each of {op.output_count()} outputs"
        )
        raise ModelError(Diagnostic("plugin", f"{message} (node {place})", defined_at(type(op).infer)))


def constant_fact(op: Constant, module: Module) -> Fact:
    """What is known of a constant: all, unless the pool lacks its array."""
    if op.value not in module.constants:
        return Fact(op.type)
    array = module.constants[op.value]
    return Fact(op.type, facts_elements(array), array)


RegionFacts = Callable[[Graph, Sequence[Fact | None]], Sequence[Fact]]
"""Facts of a region's outputs, given those of its inputs."""


def infer_node(
    node: Node, facts: Mapping[Value, Fact], module: Module, regions: RegionFacts
) -> tuple[Fact, ...]:
    """Facts of the outputs of ``node`` where it stands; a ModelError where types conflict.

    ``facts`` knows more than types of some values; ``regions`` looks into each region. New symbols and
    constraints go to the module's table.
    """
    op = node.op
    if isinstance(op, Constant):
        return (constant_fact(op, module),)
    inputs = [None if v is None else facts.get(v) or Fact(v.type) for v in node.inputs]
    try:
        given = [region_op(op).region_inputs(i, inputs) for i in range(len(node.regions))]
    except InferError as error:
        raise ModelError(Diagnostic("type", f"{op.source_name}: {error}", node.place)) from error
    inside = [regions(region, facts) for region, facts in zip(node.regions, given, strict=True)]
    known = [value.type for value in node.outputs]
    received = received_by(node.regions)
    return infer_outputs(op, inputs, module.symbols, node.place, known, inside, received)


def received_by(regions: Sequence[Graph]) -> list[list[Fact]]:
    """What the types of its inputs say of them, for each region."""
    return [[Fact(value.type) for value in region.inputs] for region in regions]


def compatible(a: TensorType, b: TensorType, symbols: SymbolTable) -> bool:
    """Whether one value may have both types: the same dtype, and shapes that some sizes make equal."""
    if a.dtype != b.dtype:
        return False
    if a.shape is None or b.shape is None:
        return True
    return len(a.shape) == len(b.shape) and not any(map(symbols.refutes_equal, a.shape, b.shape))


def _check_size(type: TensorType, op: Op, place: str) -> None:
    count = 1
    for dim in type.shape or ():
        if not isinstance(dim, int):
            count = 0
        elif dim < 0:
            raise ModelError(Diagnostic("size", f"{op.source_name}: a negative size in {type}", place))
        else:
            count *= dim or 1  # NumPy skips 0 too
    if count * type.dtype.bytes > MAX_BYTES:
        raise ModelError(Diagnostic("size", f"{op.source_name}: {type} is larger than any memory", place))
