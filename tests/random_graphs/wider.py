"""Random modules with more kinds of structure: loops, branches by an index, bytes with scales, sequences, all
among the steps of :mod:`tests.random_graphs.generate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import cast

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Graph, Value
from graphwright.ir.op import Op
from graphwright.ir.symbols import product
from graphwright.ir.types import BF16, BOOL, F16, F32, I8, I32, I64, U8, DType
from graphwright.ops.control.case import Case as Choice
from graphwright.ops.control.loop import ITERATION, Loop
from graphwright.ops.core.binary import LessOrEqual
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.clip import Clip
from graphwright.ops.core.reductions import ReduceMax
from graphwright.ops.quantized.dequantize_linear import DequantizeLinear
from graphwright.ops.quantized.matmul_integer import MatMulInteger
from graphwright.ops.quantized.quantize_linear import QuantizeLinear
from graphwright.ops.sequence.concat_from_sequence import ConcatFromSequence
from graphwright.ops.sequence.sequence_at import SequenceAt
from graphwright.ops.sequence.sequence_construct import SequenceConstruct
from graphwright.ops.sequence.sequence_erase import SequenceErase
from graphwright.ops.sequence.sequence_insert import SequenceInsert
from graphwright.ops.sequence.split_to_sequence import SplitToSequence

from .generate import Grower
from .values import EXACT, MOST_ELEMENTS, Known

SCALED = (F32, F16, BF16)


class Wider(Grower):
    """A generator that keeps exact values exact: values that loops carry, scales that are powers of two."""

    def __init__(self, random: Random, b: Builder, depth: int) -> None:
        super().__init__(random, b, depth)
        own = [
            self.loop, self.loop, self.choice, self.quantized, self.quantized, self.dequantized,
            self.dequantized, self.byte_product, self.sequence, self.pieces,
        ]  # fmt: skip
        self.steps += 3 * own

    def exact(self, value: Value) -> bool:
        known = self.known[value]
        return known.exact and known.integral

    def zero_point(self, dtype: DType) -> Value:
        made: Value = self.b.const(self.random.choice((0, 0, 1, 7)), dtype)
        return made

    # -- loops and branches ---------------------------------------------------------------------------------

    def loop(self, x: Value) -> None:
        """Up to three runs, or until a condition fails. Without one each run may give a row."""
        starts = [v for v in (x, self.pick(self.exact)) if v is not None and self.exact(v)]
        if not self.depth or not starts:
            return
        starts = starts[: self.random.randrange(1, len(starts) + 1)]
        shared = [v for v in (self.pick() for _ in range(self.random.randrange(3))) if v is not None]
        body = Graph("body")
        inner = Wider(self.random, Builder(self.b.module, body), self.depth - 1)
        inner.size = self.size
        number = body.add_input(ITERATION)
        inner.known[number] = Known(3)
        carried = [body.add_input(v.type) for v in starts]
        received = [body.add_input(v.type) for v in shared]
        for value, outer in zip((*carried, *received), (*starts, *shared), strict=True):
            inner.known[value] = self.known[outer]
        inner.grow(self.random.randrange(6))
        results = [inner.carried_on(v, self.known[s]) for v, s in zip(carried, starts, strict=True)]
        conditional = self.random.random() < 0.3
        row = None if conditional or self.random.random() < 0.5 else self.random.choice(list(inner.known))
        rows = [] if row is None or inner.elements(row) * 3 > MOST_ELEMENTS else [row]
        goes_on = [inner.b(LessOrEqual(), number, inner.b.const(1, I64))] if conditional else []
        body.set_outputs([*goes_on, *results, *rows])
        op = Loop(
            len(starts),
            len(rows),
            counted=False,
            conditional=conditional,
            trips=self.random.choice((0, 1, 2, 3)),
        )
        first = [self.steering()] if conditional else []
        made = self.b.node(op, *first, *starts, *shared, regions=[body])
        knowns = [*(self.known[s] for s in starts), *(inner.known[v] for v in rows)]
        for value, known in zip(made.outputs, knowns, strict=True):
            self.same(value, known)

    def carried_on(self, received: Value, known: Known) -> Value:
        """Something for the next run that is no larger than what this one ``received``."""
        alike = [v for v in self.known if v.type == received.type and self.exact(v)]
        result = self.random.choice([received, *alike[-2:]])
        if result.type.dtype != BOOL and self.known[result].bound > known.bound:
            low = 0 if result.type.dtype.kind == "uint" else -int(known.bound)
            result = cast("Value", self.b(Clip(low, int(known.bound)), result))
        return result

    def steering(self) -> Value:
        """A bool scalar."""
        found = self.pick(lambda v: v.type.dtype == BOOL and v.type.dims == ())
        return self.b.const(np.array(True)) if found is None else found

    def choice(self, x: Value) -> None:
        """A branch with three regions, selected by the largest of some integers."""
        index = self.pick(lambda v: v.type.dtype in (I32, I64) and self.elements(v) > 0 and self.exact(v))
        if not self.depth or index is None:
            return
        if index.type.dims:
            index = cast(
                "Value", self.b(ReduceMax(tuple(range(len(index.type.dims))), keepdims=False), index)
            )
        operands = [x, *(v for v in (self.pick(),) if v is not None)]
        made = [self.region(f"choice{k}", operands) for k in range(3)]
        value = self.b(Choice(3, 1), index, *operands, regions=[region for region, _ in made])
        known = [k for _, k in made]
        bound, error = max(k.bound for k in known), max(k.error for k in known)
        self.same(value, Known(bound, error, all(k.integral for k in known)))

    # -- bytes ----------------------------------------------------------------------------------------------

    def quantized(self, x: Value) -> None:
        if x.type.dtype not in SCALED or not self.exact(x):
            return
        to = self.random.choice((U8, I8))
        axis = self.random.randrange(len(x.type.dims)) if x.type.dims else 0
        size = x.type.dims[axis] if x.type.dims else None
        powers = np.array([1.0, 2.0, 0.5, 4.0])
        by_channel = isinstance(size, int) and self.random.random() < 0.4
        scale = (
            np.resize(powers, size) if by_channel and isinstance(size, int) else self.random.choice(powers)
        )
        zero = self.b.const(np.full(np.shape(scale), self.random.choice((0, 1, 7))), to)
        value = self.b(QuantizeLinear(to, axis), x, self.b.const(scale, x.type.dtype), zero)
        self.same(value, Known(EXACT[to] + (to == I8)))

    def dequantized(self, x: Value) -> None:
        if x.type.dtype not in (U8, I8):
            return
        scale, to = self.random.choice((1.0, 2.0)), self.random.choice(SCALED)
        bound = (self.known[x].bound + 7) * scale
        if bound > EXACT[to]:
            to = F32
        value = self.b(DequantizeLinear(to), x, self.b.const(scale, to), self.zero_point(x.type.dtype))
        self.same(value, Known(bound))

    def byte_product(self, x: Value) -> None:
        dims = x.type.dims
        if x.type.dtype not in (U8, I8) or len(dims) < 2 or not isinstance(dims[-1], int):
            return
        columns = self.random.choice((1, 5, 16, 33))
        if self.most(product((*dims[:-1], columns))) > MOST_ELEMENTS:
            return
        other = self.random.choice((U8, I8))
        w = self.constant(other, (dims[-1], columns), int(EXACT[other]))
        zeros = [self.zero_point(x.type.dtype), self.zero_point(other)][: self.random.randrange(3)]
        bound = (self.known[x].bound + 7) * (self.known[w].bound + 7) * max(dims[-1], 1)
        if bound <= EXACT[F32]:
            y = self.b(MatMulInteger(), x, w, *zeros)
            self.same(y, Known(bound))
            self.same(self.b(Cast(F32), y), Known(bound))

    # -- sequences ------------------------------------------------------------------------------------------

    def sequence(self, x: Value) -> None:
        """Adds a sequence of tensors, changes it, and reads one of its tensors or joins all of them."""
        items = [v for v in (self.pick(lambda v: v.type == x.type) for _ in range(2)) if v is not None]
        parts = self.b(SequenceConstruct(), x, *items)
        parts = self.b(SequenceInsert(), parts, self.random.choice([x, *items]), *self.place(len(items)))
        if self.random.random() < 0.5:
            parts = self.b(SequenceErase(), parts, *self.place(len(items)))
        held = [self.known[v] for v in (x, *items)]
        error, integral = max(k.error for k in held), all(k.integral for k in held)
        known = Known(max(k.bound for k in held), error, integral)
        if self.random.random() < 0.5:
            self.same(self.b(SequenceAt(), parts, self.b.const(self.random.randrange(-1, 1), I64)), known)
        elif self.elements(x) * 4 <= MOST_ELEMENTS:
            new = not x.type.dims or (len(x.type.dims) < 5 and self.random.random() < 0.5)
            axis = self.random.randrange(len(x.type.dims) + new)
            self.same(self.b(ConcatFromSequence(axis, new), parts), known)

    def place(self, last: int) -> Sequence[Value]:
        if self.random.random() < 0.3:
            return ()
        return (self.b.const(self.random.randrange(-last, last + 1), I64),)

    def pieces(self, x: Value) -> None:
        """One piece of a tensor that is split."""
        axes = [k for k, dim in enumerate(x.type.dims) if isinstance(dim, int) and 0 < dim <= 16]
        if not axes:
            return
        axis = self.random.choice(axes)
        op: Op = SplitToSequence(axis, self.random.random() < 0.5)
        size = [self.b.const(self.random.randrange(1, 4), I64)] if self.random.random() < 0.6 else []
        first = self.b.const(self.random.choice((0, -1)), I64)
        self.same(self.b(SequenceAt(), self.b(op, x, *size), first), self.known[x])
