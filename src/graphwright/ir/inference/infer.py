"""Type inference of one node, and its evaluation on NumPy."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from graphwright.errors import Diagnostic, GraphwrightError, ModelError, ReferenceFault, UnknownRankError
from graphwright.ir.builtin.constant import Constant
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.op import Array, Fact, Inference, InferError, Op, UnknownRank, facts_elements
from graphwright.ir.op.plugin_ops import blamed, defined_at, is_plugin_op
from graphwright.ir.op.region_op import region_op
from graphwright.ir.symbols import MAX_TERMS, SymbolError, SymbolTable, linear_form
from graphwright.ir.symbols import evaluate as number_of
from graphwright.ir.types import I32, I64, MAX_RANK, TensorType, type_of

MAX_BYTES = 2**62
"""Larger tensors are rejected, as their size could not be computed in int64."""


def folded(op: Op, inputs: Sequence[Fact | None]) -> tuple[Op, Sequence[Fact | None]]:
    """``op`` and its inputs after :meth:`Op.fold_operands`. They are unchanged if no operand can be
    folded.
    """
    result = op.fold_operands(*inputs)
    if result is None:
        return op, inputs
    return result[0], [inputs[position] for position in result[1]]


def fact_of(array: Array | None) -> Fact | None:
    """The facts about an array: its type and elements."""
    return None if array is None else Fact(type_of(array), facts_elements(array), array)


def evaluate(op: Op, arrays: Sequence[Array | None], location: str = "") -> tuple[Array, ...]:
    """Runs the NumPy reference of ``op``; always returns a tuple. Raises ValueError if it does not accept the
    elements.

    Operands that give sizes, axes or bounds must pass inference; otherwise a ModelError names
    ``location``.
    """
    form = None if type(op).fold_operands is Op.fold_operands else _folded_arrays(op, arrays, location)
    if form is not None:
        op, arrays = form[0], [arrays[position] for position in form[1]]
    try:
        result = _plugin_results(op, arrays) if is_plugin_op(type(op)) else op.reference(*arrays)
    except InferError as error:
        raise ValueError(str(error)) from error
    except (ArithmeticError, LookupError, TypeError, ValueError):
        if not is_plugin_op(type(op)):
            _raise_inference_error(op, arrays, location)
        raise
    return result if isinstance(result, tuple) else (result,)


def _raise_inference_error(op: Op, arrays: Sequence[Array | None], location: str) -> None:
    """Raises ModelError if inference rejects these operands too: its message is better than NumPy's."""
    with contextlib.suppress(UnknownRankError):
        infer_outputs(op, [fact_of(array) for array in arrays], SymbolTable(), location)


def _folded_arrays(
    op: Op, arrays: Sequence[Array | None], location: str
) -> tuple[Op, tuple[int, ...]] | None:
    """:meth:`Op.fold_operands` on arrays; folded sizes, axes or bounds must pass inference."""
    facts = [fact_of(array) for array in arrays]
    try:
        form = op.fold_operands(*facts)
    except InferError as error:
        raise ModelError(invalid_types(error, op, location)) from error
    if form is None:
        return None
    gone = [fact for position, fact in enumerate(facts) if fact is not None and position not in form[1]]
    if any(fact.dtype in (I32, I64) for fact in gone):
        _check_operands(form[0], [facts[position] for position in form[1]], location)
    return form


def _check_operands(op: Op, operands: Sequence[Fact | None], location: str) -> None:
    """Raises ModelError if inference rejects ``op``, or a result does not fit in memory."""
    try:
        facts = infer_outputs(op, operands, SymbolTable(), location)
    except UnknownRankError:
        return
    for fact in facts:
        if fact.type.is_static and number_of(fact.type.bytes, {}) > physical_memory():
            message = f"{op.source_name}: the result, {fact.type}, exceeds the memory of this machine"
            raise ModelError(Diagnostic("memory", message, location))


@cache
def physical_memory() -> int:
    """Bytes of physical memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _plugin_results(op: Op, arrays: Sequence[Array | None]) -> tuple[Array, ...]:
    cls = type(op)
    if cls.reference is Op.reference:
        raise ReferenceFault(Diagnostic("reference", f"{op.name} has no reference", defined_at(cls)))
    try:
        result = op.reference(*arrays)
    except Exception as error:
        raise ReferenceFault(blamed(error, cls, f"{op.name}.reference")) from error
    results = result if isinstance(result, tuple) else (result,)
    if len(results) != op.output_count():
        message = f"{op.name}.reference returned {len(results)} results for {op.output_count()} outputs"
        raise ReferenceFault(Diagnostic("reference", message, defined_at(cls.reference)))
    converted: list[Any] = [r if isinstance(r, list | None) else np.asarray(r) for r in results]
    return tuple(converted)


def check_results(op: Op, results: Sequence[Any], types: Sequence[TensorType]) -> None:
    """Raises ReferenceFault if a result of ``op`` does not have its type; symbolic sizes may be any."""
    for number, (result, type_) in enumerate(zip(results, types, strict=True)):
        if isinstance(result, np.ndarray) and not _fits(result, type_):
            message = (
                f"{op.name}.reference returned {type_of(result)} for output {number}, but infer gives {type_}"
            )
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
    location: str,
    known: Sequence[TensorType] = (),
    regions: Sequence[Sequence[Fact]] = (),
    received: Sequence[Sequence[Fact]] = (),
) -> tuple[Fact, ...]:
    """Facts of the outputs. Raises ModelError at ``location`` if types conflict.

    ``known``: types to use if a rank is unknown. ``regions``, ``received``: facts of the outputs and inputs
    of each region.
    """
    try:
        op.verify()
        if regions:
            inference = Inference(symbols, location, inputs, received)
            result: object = region_op(op).infer_regions(inference, regions)
        else:
            op, inputs = folded(op, inputs)
            result = op.infer(Inference(symbols, location), *inputs)
    except UnknownRank:
        return _of_unknown_rank(op, location, known)
    except GraphwrightError:
        raise
    except Exception as error:
        diagnostic = _diagnostic(error, op, location)
        if diagnostic is None:
            raise
        raise ModelError(diagnostic) from error
    return _checked_facts(result, op, location)


def _of_unknown_rank(op: Op, location: str, known: Sequence[TensorType]) -> tuple[Fact, ...]:
    """Facts with the dtypes of ``known``, without shapes. Raises UnknownRankError if no types are known."""
    if not known:
        message = f"{op.source_name}: the rank of an operand is not known"
        hint = "give the shapes of the inputs with shapes="
        raise UnknownRankError(Diagnostic("unknown-rank", message, location, hint)) from None
    return tuple(Fact(TensorType(t.dtype, None)) for t in known)


def _checked_facts(result: object, op: Op, location: str) -> tuple[Fact, ...]:
    """The result of ``infer`` as facts. Raises ModelError if they are invalid."""
    outputs = result if isinstance(result, tuple) else (result,)
    if is_plugin_op(type(op)):
        _check_facts(op, outputs, location)
    facts = tuple(out if isinstance(out, Fact) else Fact(out) for out in outputs)
    for fact in facts:
        _check_size(fact.type, op, location)
    return tuple(fact if fact.type.is_static else fact.with_type(_simplified(fact.type)) for fact in facts)


def _simplified(type: TensorType) -> TensorType:
    """``type`` with ``N`` for sizes such as ``max(min(1, N) + N - 1, 0)``."""
    shape = type.shape and tuple(map(linear_form, type.shape))
    return type if shape == type.shape else TensorType(type.dtype, shape)


def invalid_types(error: InferError, op: Op, location: str) -> Diagnostic:
    """The diagnostic for types that ``op`` at ``location`` rejects."""
    return Diagnostic(error.code, f"{op.source_name}: {error}", location)


def _diagnostic(error: Exception, op: Op, location: str) -> Diagnostic | None:
    """The diagnostic for an exception during inference of ``op``; None if it is a bug of graphwright."""
    if isinstance(error, InferError):
        return invalid_types(error, op, location)
    if isinstance(error, SymbolError):
        remedy = "fix sizes, or give equal ones the same name, with shapes="
        hint = f"sizes are limited to {MAX_TERMS} terms: {remedy}" if "terms" in str(error) else ""
        return Diagnostic("size", f"{op.source_name}: {error}", location, hint)
    return _blamed_infer(error, op, location) if is_plugin_op(type(op)) else None


def _blamed_infer(error: Exception, op: Op, location: str) -> Diagnostic:
    """The diagnostic for an exception of a user's ``infer``."""
    cls = type(op)
    if cls.infer is Op.infer:
        return Diagnostic("plugin", f"{op.name} does not implement infer (node {location})", defined_at(cls))
    fault = blamed(error, cls, f"{op.name}.infer")
    return Diagnostic(fault.code, f"{fault.message} (node {location})", fault.where)


def _check_facts(op: Op, outputs: Sequence[object], location: str) -> None:
    """Raises ModelError if a user's ``infer`` does not return a type for each output."""
    given = ", ".join(type(out).__name__ for out in outputs)
    if len(outputs) != op.output_count() or not all(isinstance(out, Fact | TensorType) for out in outputs):
        wanted = f"a TensorType for each of {op.output_count()} outputs (node {location})"
        message = f"{op.name}.infer returned {given} instead of {wanted}"
        raise ModelError(Diagnostic("plugin", message, defined_at(type(op).infer)))


def constant_fact(op: Constant, module: Module) -> Fact:
    """The facts about a constant. Its elements are not known if the pool does not have the array."""
    if op.value not in module.constants:
        return Fact(op.type)
    array = module.constants[op.value]
    return Fact(op.type, facts_elements(array), array)


RegionFacts = Callable[[Graph, Sequence[Fact | None]], Sequence[Fact]]
"""Infers the facts of the outputs of a region from the facts of its inputs."""


def input_facts(node: Node, facts: Mapping[Value, Fact]) -> list[Fact | None]:
    """What is known about the inputs of ``node``: the facts in ``facts``, for other values the types."""
    return [None if value is None else facts.get(value) or Fact(value.type) for value in node.inputs]


def infer_node(
    node: Node, facts: Mapping[Value, Fact], module: Module, regions: RegionFacts
) -> tuple[Fact, ...]:
    """Facts of the outputs of ``node``. Raises ModelError if types conflict.

    ``facts``: known facts of values, beyond their types. ``regions``: infers each region. New symbols and
    constraints go to the table of the module.
    """
    op = node.op
    if isinstance(op, Constant):
        return (constant_fact(op, module),)
    inputs = input_facts(node, facts)
    try:
        given = [region_op(op).region_inputs(i, inputs) for i in range(len(node.regions))]
    except InferError as error:
        raise ModelError(invalid_types(error, op, node.location)) from error
    inside = [regions(region, facts) for region, facts in zip(node.regions, given, strict=True)]
    known = [value.type for value in node.outputs]
    received = region_input_facts(node.regions)
    return infer_outputs(op, inputs, module.symbols, node.location, known, inside, received)


def region_input_facts(regions: Sequence[Graph]) -> list[list[Fact]]:
    """Facts of the inputs of each region, from their types."""
    return [[Fact(value.type) for value in region.inputs] for region in regions]


def compatible(a: TensorType, b: TensorType, symbols: SymbolTable) -> bool:
    """Whether one value can have both types: equal dtypes, and shapes that are not provably different."""
    if a.dtype != b.dtype:
        return False
    if a.shape is None or b.shape is None:
        return True
    return len(a.shape) == len(b.shape) and not any(map(symbols.refutes_equal, a.shape, b.shape))


def _check_size(type: TensorType, op: Op, location: str) -> None:
    count = 1
    if (type.rank or 0) > MAX_RANK:
        message = f"{op.source_name}: the result has {type.rank} axes, but at most {MAX_RANK} are supported"
        raise ModelError(Diagnostic("size", message, location))
    for dim in type.shape or ():
        if not isinstance(dim, int):
            count = 0
        elif dim < 0:
            raise ModelError(Diagnostic("size", f"{op.source_name}: {type} has a negative size", location))
        else:
            count *= dim or 1  # NumPy skips 0 too
    if count * type.dtype.bytes > MAX_BYTES:
        raise ModelError(
            Diagnostic("size", f"{op.source_name}: {type} exceeds the addressable memory", location)
        )
