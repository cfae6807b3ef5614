"""Constant folding within budgets, while shapes are inferred: one walk serves both."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from graphwright.ir.arrays import is_repeated
from graphwright.ir.build import Builder
from graphwright.ir.constant import Constant, constant_of
from graphwright.ir.graph import Module, Node, Value
from graphwright.ir.infer import evaluate
from graphwright.ir.mapped import release
from graphwright.ir.op import Array, Fact, Op, Trait, facts_elements, is_known
from graphwright.ir.types import TensorType, type_of
from graphwright.ops.core.constant_of_shape import ConstantOfShape
from graphwright.ops.core.transpose import Transpose
from graphwright.passes.base import Known, Pass, Record, prune
from graphwright.passes.infer_shapes import Walk, infer_module, settled_sizes
from graphwright.records import dataclass, replace

MIB = 2**20


@dataclass(frozen=True)
class FoldConstants(Pass):
    """Evaluates nodes whose inputs are constants, and nodes whose output elements are known numbers (sizes).

    A model must not make folding cost more than running it, nor its file much larger: an output beyond
    ``max_bytes`` and larger than what it is made of, or one that is large beside that, stays computed; so
    does what would make the constants grow ``growth`` times over (or by ``max_bytes``, if that is more), and
    everything past ``total_bytes`` or ``total_steps`` (multiplications and moves, estimated from sizes: the
    outcome never depends on the clock). Outputs of which one element stands for all, up to ``max_repeated``,
    are folded all the same: they take no room in a file. What ``keep`` wants stays computed.
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
        held = sum(module.constants.held(ref).nbytes for ref in module.constants)
        folding = _Folding(self, record, max(self.max_bytes, (self.growth - 1) * held))
        return infer_module(module, record, folding.visit)


@dataclass
class _Folding:
    limits: FoldConstants
    record: Record
    room: int
    """Bytes by which the constants may still grow."""
    bytes: int = 0
    steps: int = 0

    def visit(self, walk: Walk, node: Node, facts: Sequence[Fact]) -> bool:
        if isinstance(node.op, Constant) or Trait.EFFECT in node.op.traits:
            return False
        if self.limits.keep is not None and self.limits.keep(node):
            return False
        if not any(map(_may_be_known, facts)):
            return self._evaluate(walk, node, facts)
        return self._known_outputs(walk, node, facts) or self._evaluate(walk, node, facts)

    def _evaluate(self, walk: Walk, node: Node, facts: Sequence[Fact]) -> bool:
        """Replace ``node`` by what its reference makes of constants; whether it was."""
        if node.regions or any(fact.dtype.element is not None for fact in facts):  # the pool holds tensors
            return False
        arrays: list[Array | None] = []
        for value in node.inputs:
            given = None if value is None else walk.facts.get(value)
            if value is not None and (given is None or given.data is None):
                return False
            arrays.append(None if given is None else given.data)
        repeated = self._repeated(node, arrays, facts)
        if not repeated and self._is_transposed_in_place(walk, node):
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

    def _is_transposed_in_place(self, walk: Walk, node: Node) -> bool:
        """Replace a large Transpose by a constant in the memory of its operand; whether it was one.

        Kernels' packing reads weights in any order of axes.
        """
        constant = constant_of(node.inputs[0]) if isinstance(node.op, Transpose) else None
        if (
            constant is None
            or static_size(constant.type) * constant.type.dtype.bytes <= self.limits.small_bytes
        ):
            return False
        assert isinstance(node.op, Transpose)
        axes = node.op.perm or range(len(static_shape(constant.type)))[::-1]
        ref = walk.module.constants.transposed(constant.value, axes)
        _read_instead(walk, node.output, Constant(ref, node.output.type))
        prune(node)
        self.record.did("weights transposed in place")
        return True

    def _known_outputs(self, walk: Walk, node: Node, facts: Sequence[Fact]) -> bool:
        """Replace outputs that are known, whatever the inputs are; whether there were any."""
        modified, is_open = False, walk.module.symbols.undecided
        for value, fact in zip(node.outputs, facts, strict=True):
            if is_open and 0 in (fact.type.shape or ()):
                continue  # the node is still to demand what inference left open
            in_use = value.uses or (node.graph is not None and value in node.graph.outputs)
            array = self._known_array(node, fact) if in_use else None
            if array is None:
                continue
            _replace(walk, value, array)
            self.record.did("sizes folded" if array.size else "empty tensors")
            modified = True
        if modified:
            prune(node)
        return modified

    def _known_array(self, node: Node, fact: Fact) -> Array | None:
        """The array of a constant that is known from all that a node could give, from elements, or empty."""
        if fact.data is not None or not fact.type.is_static:
            return fact.data
        if not static_size(fact.type):
            return np.empty(static_shape(fact.type), fact.dtype.numpy)
        if not is_known(fact.elements) or fact.dtype.kind not in ("int", "uint", "bool"):
            return None
        try:
            return np.array(fact.elements, object).astype(fact.dtype.numpy).reshape(static_shape(fact.type))
        except (OverflowError, ValueError) as error:
            self.record.refused(node, "fold known elements", str(error))
            return None

    def _over_budget(self, node: Node, arrays: Sequence[Array | None], facts: Sequence[Fact]) -> str | None:
        """Why evaluating ``node`` would cost too much, if it would; its costs are counted otherwise."""
        if not all(fact.type.is_static for fact in facts):
            return "the size of an output is not known"
        given = sum(array.nbytes for array in arrays if array is not None)
        made = sum(static_size(fact.type) * fact.dtype.bytes for fact in facts)
        if made > self.limits.max_bytes and made > given:
            return f"its outputs take {made} bytes, more than {self.limits.max_bytes}"
        if made > self.limits.small_bytes and made > self.limits.growth * given:
            return f"its outputs take {made} bytes, its inputs only {given}"
        if made - given > self.room:
            return f"its outputs take {made} bytes, and the constants may only grow by {self.room} more"
        steps = _steps(node, arrays, facts)
        if self.bytes + made > self.limits.total_bytes or self.steps + steps > self.limits.total_steps:
            return "the module's budget for constant folding is exhausted"
        self.bytes += made
        self.steps += steps
        self.room -= max(0, made - given)
        return None

    def _repeated(
        self, node: Node, arrays: Sequence[Array | None], facts: Sequence[Fact]
    ) -> list[Array] | None:
        """The large output of ``node`` as one element that is seen many times, if it is that."""
        if len(facts) != 1 or not facts[0].type.is_static:
            return None
        type = facts[0].type
        made = static_size(type) * type.dtype.bytes
        if not self.limits.small_bytes < made <= self.limits.max_repeated:
            return None
        if self.bytes + made > self.limits.total_bytes:
            return None
        element = _element(node.op, arrays)
        if element is None or element.size != 1 or element.dtype != type.dtype.numpy:
            return None
        self.bytes += made
        return [np.broadcast_to(element.reshape(()), static_shape(type))]


def _may_be_known(fact: Fact) -> bool:
    """Whether an output may be known from its fact: cheap, as it is asked of each node."""
    return fact.elements is not None or fact.data is not None or 0 in (fact.type.shape or ())


def _element(op: Op, arrays: Sequence[Array | None]) -> Array | None:
    """The element that all of an output of ``op`` are, if those of each operand are all the same."""
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
    """Elements moved; for a product, its multiplications: sqrt(mk * kn * mn) is mkn."""
    sizes = [array.size for array in arrays if array is not None]
    made = sum(static_size(fact.type) for fact in facts)
    if Trait.CONTRACTION in node.op.traits and len(sizes) >= 2:
        return math.isqrt(sizes[0] * sizes[1] * made)
    return sum(sizes) + made


def static_shape(type: TensorType) -> tuple[int, ...]:
    """The shape of a static type."""
    return tuple(dim for dim in type.dims if isinstance(dim, int))


def static_size(type: TensorType) -> int:
    """Number of elements of a static type."""
    return math.prod(static_shape(type))


def _bytes(type: TensorType) -> int:
    return static_size(type) * type.dtype.bytes


def _evaluated(node: Node, arrays: Sequence[Array | None]) -> tuple[Sequence[Array], str | None]:
    """The outputs of ``node``, or why they cannot be had."""
    try:
        with np.errstate(all="ignore"):
            results = [np.asarray(result) for result in evaluate(node.op, arrays)]
    except NotImplementedError:
        return (), f"{node.op.name} has no reference"
    except (ArithmeticError, LookupError, TypeError, ValueError, MemoryError) as error:
        return (), f"its reference refuses: {error}"
    for value, result in zip(node.outputs, results, strict=False):
        if value.type != type_of(result):
            return (), f"its reference gives {type_of(result)} for {value.type}"
    return results, None


def _replace(walk: Walk, value: Value, array: Array) -> None:
    """Let consumers of ``value`` read a constant."""
    _read_instead(walk, value, Constant(walk.module.constants.add(array), type_of(array)))


def _read_instead(walk: Walk, value: Value, constant: Constant) -> None:
    node = value.producer
    assert node is not None and node.graph is not None
    made = Builder(walk.module, node.graph, node, node.sources)(constant)
    made.device = value.device
    held = walk.module.constants[constant.value]  # the same array for equal constants
    walk.facts[made] = Fact(made.type, facts_elements(held), held)
    walk.settled |= settled_sizes(value.type, made.type)
    node.graph.replace_all_uses(value, made)
