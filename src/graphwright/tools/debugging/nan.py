"""Finds the first step of a run that computes NaN or infinity from operands that have none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from graphwright.ir.builtin.constant import Constant
from graphwright.ir.evaluate import Evaluator, input_sizes
from graphwright.ir.graph import Module, Node, Value
from graphwright.ir.op import Array
from graphwright.ir.types import F64
from graphwright.records import dataclass
from graphwright.runtime.first_nan import INFINITY, NAN
from graphwright.tools.debugging.programs import DebuggedProgram
from graphwright.tools.debugging.steps import StepResult, StepWalk
from graphwright.tools.debugging.subject import Subject

_KINDS: Final = {NAN: np.isnan, INFINITY: np.isinf}


@dataclass(frozen=True)
class FirstNan:
    """The first step with elements that are not finite. ``node`` is the first node of the step that computes
    such elements, which are of ``node_kind``. ``in_f64``: whether the operands also lead to such elements in
    f64.
    """

    program: DebuggedProgram
    result: StepResult
    kind: str
    count: int
    node: Node
    node_kind: str
    in_f64: bool


def find_nan(subject: Subject) -> FirstNan | None:
    """The first step whose result has NaN although no operand has; or has infinity although no operand has
    NaN or infinity.
    """
    for program in subject.programs:
        for result in StepWalk(program):
            kind = _introduced(result, program.graph.module)
            if kind is not None:
                count = int(_KINDS[kind](_floats(result.got)).sum())
                inside = _first_inside(program, result, kind)
                return FirstNan(program, result, kind, count, *inside, has(kind, result.expected))
    return None


def has(kind: str, array: Array) -> bool:
    """Whether an element of ``array`` is NaN or infinite."""
    return bool(_KINDS[kind](_floats(array)).any())


def _introduced(result: StepResult, module: Module) -> str | None:
    """The kind of non-finite elements that the results of a step have and its operands do not have."""
    if result.got.dtype.kind not in "fcV":
        return None
    arrays = [array for _, array in result.operands]
    had_nan = any(has(NAN, array) for array in arrays)
    if has(NAN, result.got) and not had_nan:
        return NAN
    if had_nan or not has(INFINITY, result.got) or any(has(INFINITY, array) for array in arrays):
        return None
    return None if _has_literal_infinity(module, result.node) else INFINITY


def _has_literal_infinity(module: Module, node: Node) -> bool:
    """Whether a region of ``node`` contains infinity as a constant, as in a mask."""
    inner = [each.op for region in node.regions for each in region.walk()]
    return any(isinstance(op, Constant) and has(INFINITY, module.constants[op.value]) for op in inner)


def _floats(array: object) -> Array:
    """``array`` as floats that NumPy can test; an empty array if it does not contain floats."""
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fcV":
        return np.zeros(0)
    return array if array.dtype.kind in "fc" else array.astype(np.float64)


def _first_inside(program: DebuggedProgram, result: StepResult, kind: str) -> tuple[Node, str]:
    """The first node of a step whose result, in the types of the model, is not finite, and the kind that it
    computes. The kind may differ from ``kind``: an infinity inside of the step can become NaN.
    """
    found: list[tuple[Node, str]] = []
    given = [array for _, array in result.operands]
    is_given = any(has(INFINITY, array) for array in given)
    kinds = (kind,) if is_given or _has_literal_infinity(program.graph.module, result.node) else (*_KINDS,)

    def note(value: Value, array: Array) -> None:
        node = value.producer
        if node is not None and not node.is_constant:
            found.extend((node, each) for each in kinds if has(each, array))

    nodes = [program.graph.nodes[node] for node in result.span.step.nodes]
    known = {value: _narrowed(value, array) for value, array in result.operands}
    module = program.graph.module
    evaluator = Evaluator(module, input_sizes(module.main, program.run.arrays), observe=note)
    with np.errstate(all="ignore"):
        for node in nodes:
            results = evaluator.node(node, [None if v is None else known[v] for v in node.inputs])
            known |= dict(zip(node.outputs, results, strict=True))
            for value, array in zip(node.outputs, results, strict=True):
                note(value, array)
    return found[0] if found else (result.node, kind)


def _narrowed(value: Value, array: Array) -> Array:
    """A result that was computed in f64, converted to its own type."""
    is_wide = isinstance(array, np.ndarray) and array.dtype == np.float64 and value.type.dtype is not F64
    return array.astype(value.type.dtype.numpy) if is_wide else array


def ranges(operands: Sequence[tuple[Value, Array]]) -> list[list[str]]:
    """A row for each operand: name, type, minimum, mean, maximum, and the numbers of NaN and infinite
    elements.
    """
    return [[value.name or "?", str(value.type), *_range(array)] for value, array in operands]


def _range(array: Array) -> list[str]:
    numbers = _floats(array) if isinstance(array, np.ndarray) and array.dtype.kind in "fcV" else array
    if not isinstance(numbers, np.ndarray) or numbers.dtype.kind not in "biuf":
        return [""] * 4
    finite = numbers[np.isfinite(numbers)].astype(np.float64)
    other = str(numbers.size - finite.size)
    if not finite.size:
        return ["", "", "", other]
    return [*(f"{number:.6g}" for number in (finite.min(), finite.mean(), finite.max())), other]
