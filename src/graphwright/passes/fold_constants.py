"""Constant folding within budgets, in the same traversal as shape inference."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from graphwright.ir.arrays import is_repeated
from graphwright.ir.build import Builder
from graphwright.ir.builtin.constant import Constant, constant_of
from graphwright.ir.constants.mapped import release
from graphwright.ir.graph import Module, Node, Value
from graphwright.ir.inference.infer import evaluate
from graphwright.ir.op import Array, Fact, Op, Trait, facts_elements, is_known
from graphwright.ir.types import TensorType, type_of
from graphwright.ops.core.constant_of_shape import ConstantOfShape
from graphwright.ops.core.transpose import Transpose
from graphwright.passes.base import Known, Pass, Record
from graphwright.passes.fixed_sizes import refined_symbols
from graphwright.passes.infer_shapes import ShapeInference, infer_module
from graphwright.passes.node_removal import prune
from graphwright.records import dataclass, replace

MIB = 2**20


@dataclass(frozen=True)
class FoldConstants(Pass):
    """Evaluates nodes whose inputs are constants, and nodes whose output elements are known
    (sizes).

    Folding must not cost more than running the model, nor make its file much larger. Not folded are:

    - an output larger than ``max_bytes`` and than its inputs;
    - an output larger than ``small_bytes`` and than ``growth`` times its inputs;
    - an output that would make all constants grow ``growth`` times (or by ``max_bytes``, if that is more);
    - all outputs once ``total_bytes`` or ``total_steps`` are used up. Steps are multiplications and moves,
      estimated from sizes, so that the result never depends on timing;
    - nodes for which ``keep`` is true.

    An output that repeats one element is folded up to ``max_repeated`` bytes, as it takes no space in a file.
    """

    max_bytes: int = 64 * MIB
    max_repeated: int = 1024 * MIB
    total_bytes: int = 2048 * MIB
    small_bytes: int = MIB
    growth: int = 4
    total_steps: int = 2**34
    keep: Callable[[Node], bool] | None = None
    name: str = "fold_constants"
    ensures: Known = Known.TYPES

    def run(self, module: Module, record: Record) -> bool:
        held = sum(module.constants.stored(ref).nbytes for ref in module.constants)
        folding = _Folding(self, record, max(self.max_bytes, (self.growth - 1) * held))
        return infer_module(module, record, folding.visit)


@dataclass
class _Folding:
    """The folding visitor, and what is left of its budgets."""

    limits: FoldConstants
    record: Record
    room: int
    """Bytes by which the constants may still grow."""
    bytes: int = 0
    steps: int = 0

    def visit(self, walk: ShapeInference, node: Node, facts: Sequence[Fact]) -> bool:
        if node.is_constant or Trait.EFFECT in node.op.traits:
            return False
        if self.limits.keep is not None and self.limits.keep(node):
            return False
        if not any(map(_may_be_known, facts)):
            return self._evaluate(walk, node, facts)
        return self._replace_known(walk, node, facts) or self._evaluate(walk, node, facts)

    def _evaluate(self, walk: ShapeInference, node: Node, facts: Sequence[Fact]) -> bool:
        """Replaces ``node`` by the result of its reference on constants. Returns whether it was replaced."""
        if node.regions or any(fact.dtype.element is not None for fact in facts):  # the pool holds tensors
            return False
        arrays: list[Array | None] = []
        for value in node.inputs:
            given = None if value is None else walk.facts.get(value)
            if value is not None and (given is None or given.data is None):
                return False
            arrays.append(None if given is None else given.data)
        repeated = self._repeated(node, arrays, facts)
        if not repeated and self._transpose_in_place(walk, node):
            return True
        reason = None if repeated else self._over_budget(node, arrays, facts)
        if repeated:
            results: Sequence[Array] = repeated
        elif reason is None:
            results, reason = _evaluated(node, arrays)
        if reason is not None:
            self.record.refused(node, "fold", reason)
            return False
        for value, array in zip(node.outputs, results, strict=True):
            _replace(walk, value, array)
        for operand in arrays:
            if operand is not None:
                release(operand)
        prune(node)
        self.record.did("nodes folded")
        return True

    def _transpose_in_place(self, walk: ShapeInference, node: Node) -> bool:
        """Replaces a large Transpose of a constant by a transposed view of it, without a copy.

        Returns whether it was replaced. Packing for kernels reads weights in any axis order.
        """
        constant = constant_of(node.inputs[0]) if isinstance(node.op, Transpose) else None
        if constant is None or _bytes(constant.type) <= self.limits.small_bytes:
            return False
        assert isinstance(node.op, Transpose)
        axes = node.op.perm or range(len(constant.type.dims))[::-1]
        ref = walk.module.constants.add_transposed(constant.value, axes)
        _use_constant(walk, node.output, Constant(ref, node.output.type))
        prune(node)
        self.record.did("weights transposed in place")
        return True

    def _replace_known(self, walk: ShapeInference, node: Node, facts: Sequence[Fact]) -> bool:
        """Replaces outputs that are known whatever the inputs are. Returns whether there were any."""
        modified, is_open = False, walk.module.symbols.undecided
        for value, fact in zip(node.outputs, facts, strict=True):
            if is_open and 0 in (fact.type.shape or ()):
                continue  # the node still has to add constraints that inference left undecided
            array = self._known_array(node, fact) if value.is_used else None
            if array is None:
                continue
            _replace(walk, value, array)
            self.record.did("sizes folded" if array.size else "empty tensors")
            modified = True
        if modified:
            prune(node)
        return modified

    def _known_array(self, node: Node, fact: Fact) -> Array | None:
        """The known value of an output: from its data, from its elements, or because it is empty. None if
        unknown.
        """
        if fact.data is not None or not fact.type.is_static:
            return fact.data
        if 0 in fact.type.sizes:
            return np.empty(fact.type.sizes, fact.dtype.numpy)
        if not is_known(fact.elements) or fact.dtype.kind not in ("int", "uint", "bool"):
            return None
        try:
            return np.array(fact.elements, object).astype(fact.dtype.numpy).reshape(fact.type.sizes)
        except (OverflowError, ValueError) as error:
            self.record.refused(node, "fold known elements", str(error))
            return None

    def _over_budget(self, node: Node, arrays: Sequence[Array | None], facts: Sequence[Fact]) -> str | None:
        """Why evaluating ``node`` would cost too much; None, after counting its cost, if it does not."""
        if not all(fact.type.is_static for fact in facts):
            return "an output has a dynamic dimension"
        given = sum(array.nbytes for array in arrays if array is not None)
        produced = sum(_bytes(fact.type) for fact in facts)
        if produced > self.limits.max_bytes and produced > given:
            return f"its outputs take {produced} bytes, more than {self.limits.max_bytes}"
        if produced > self.limits.small_bytes and produced > self.limits.growth * given:
            return f"its outputs take {produced} bytes, its inputs only {given}"
        if produced - given > self.room:
            return f"its outputs take {produced} bytes, but the constants may grow by only {self.room} more"
        steps = _steps(node, arrays, facts)
        if self.bytes + produced > self.limits.total_bytes or self.steps + steps > self.limits.total_steps:
            return "the module's budget for constant folding is exhausted"
        self.bytes += produced
        self.steps += steps
        self.room -= max(0, produced - given)
        return None

    def _repeated(
        self, node: Node, arrays: Sequence[Array | None], facts: Sequence[Fact]
    ) -> list[Array] | None:
        """The output of ``node`` as a broadcast of one element, if it is large and repeats that element; else
        None.
        """
        if len(facts) != 1 or not facts[0].type.is_static:
            return None
        type = facts[0].type
        produced = _bytes(type)
        if not self.limits.small_bytes < produced <= self.limits.max_repeated:
            return None
        if self.bytes + produced > self.limits.total_bytes:
            return None
        element = _element(node.op, arrays)
        if element is None or element.size != 1 or element.dtype != type.dtype.numpy:
            return None
        self.bytes += produced
        return [np.broadcast_to(element.reshape(()), type.sizes)]


def _may_be_known(fact: Fact) -> bool:
    """A cheap check, run for each node, whether an output may be known from its fact."""
    return fact.elements is not None or fact.data is not None or 0 in (fact.type.shape or ())


def _element(op: Op, arrays: Sequence[Array | None]) -> Array | None:
    """The one element that the output of ``op`` repeats, if each operand repeats one element too."""
    if isinstance(op, ConstantOfShape):
        return replace(op, shape=()).reference()
    if any(array is not None and array.size != 1 and not is_repeated(array) for array in arrays):
        return None
    elements = [None if array is None else array[(0,) * array.ndim].reshape(()) for array in arrays]
    if Trait.COPY | Trait.VIEW in op.traits:
        return elements[0]
    if Trait.ELEMENTWISE not in op.traits:
        return None
    try:
        with np.errstate(all="ignore"):
            return np.asarray(op.reference(*elements))
    except (ArithmeticError, LookupError, TypeError, ValueError, NotImplementedError):
        return None


def _steps(node: Node, arrays: Sequence[Array | None], facts: Sequence[Fact]) -> int:
    """Estimated cost: elements moved, or for a product its multiplications, mkn = sqrt(mk * kn * mn)."""
    sizes = [array.size for array in arrays if array is not None]
    produced = sum(_count(fact.type) for fact in facts)
    if Trait.CONTRACTION in node.op.traits and len(sizes) >= 2:
        return math.isqrt(sizes[0] * sizes[1] * produced)
    return sum(sizes) + produced


def _count(type: TensorType) -> int:
    """Number of elements of a static type."""
    return math.prod(type.sizes)


def _bytes(type: TensorType) -> int:
    """Bytes of a static type."""
    return _count(type) * type.dtype.bytes


def _evaluated(node: Node, arrays: Sequence[Array | None]) -> tuple[Sequence[Array], str | None]:
    """The outputs of ``node``, or why it cannot be evaluated."""
    try:
        with np.errstate(all="ignore"):
            results = [np.asarray(result) for result in evaluate(node.op, arrays)]
    except NotImplementedError:
        return (), f"{node.op.name} has no reference"
    except (ArithmeticError, LookupError, TypeError, ValueError, MemoryError) as error:
        return (), f"its reference failed: {error}"
    for value, result in zip(node.outputs, results, strict=False):
        if value.type != type_of(result):
            return (), f"its reference returned {type_of(result)} instead of {value.type}"
    return results, None


def _replace(walk: ShapeInference, value: Value, array: Array) -> None:
    """Replaces ``value`` by a constant."""
    _use_constant(walk, value, Constant(walk.module.constants.add(array), type_of(array)))


def _use_constant(walk: ShapeInference, value: Value, constant: Constant) -> None:
    node = value.producer
    assert node is not None and node.graph is not None
    replacement = Builder(walk.module, node.graph, node, node.sources)(constant)
    replacement.device = value.device
    held = walk.module.constants[constant.value]  # the same array for equal constants
    walk.facts[replacement] = Fact(replacement.type, facts_elements(held), held)
    walk.substitutions |= refined_symbols(value.type, replacement.type)
    node.graph.replace_all_uses(value, replacement)
