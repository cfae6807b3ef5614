"""RandomUniform and RandomNormal, and those of the shape of another tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.op import Array, Fact, Importer, Inference, Op, Sample, Trait, arg, op
from graphwright.ir.symbols import Dim, symbol
from graphwright.ir.types import BF16, F16, F32, F64, I32, DType, TensorType
from graphwright.ops.core.binary import Less
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.common import FLOATS, dtype_attribute
from graphwright.ops.core.shaping import number


class Random(Op):
    """Base of random tensors of ``shape``, or of that of the operand.

    With a ``seed`` every run draws the same numbers, from the Mersenne Twister (Matsumoto and Nishimura 1998)
    seeded as NumPy's RandomState is, whose stream is fixed for good; without one they differ.
    """

    traits = Trait.EFFECT
    shape: tuple[Dim, ...] | None
    dtype: DType
    seed: float | None

    def infer(self, at: Inference, x: Fact | None = None) -> TensorType:
        if self.dtype not in FLOATS:
            raise at.fail(f"random numbers of {self.dtype}; floats alone can be drawn")
        if self.shape is None and x is None:
            raise at.fail("it needs a shape, or an operand that has one")
        return TensorType(self.dtype, self.shape if x is None else x.type.shape)

    def reference(self, x: Array | None = None) -> Array:
        shape = tuple(map(number, self.shape or ())) if x is None else x.shape
        return np.asarray(self.drawn(generator(self.seed), shape)).astype(self.dtype.numpy)

    def drawn(self, source: np.random.RandomState, shape: tuple[int, ...]) -> Any:
        """Numbers of f64; each op of the family defines them."""
        raise NotImplementedError(self.name)


def generator(seed: float | None) -> np.random.RandomState:
    """A source of numbers; one that is new each time where there is no seed.

    A whole number below 2**32 is the seed itself, any other the bits of it in f64.
    """
    if seed is None:
        return np.random.RandomState(np.random.MT19937(np.random.SeedSequence()))
    if seed == int(seed) and 0 <= seed < 2**32:
        return np.random.RandomState(int(seed))
    return np.random.RandomState(np.frombuffer(np.float64(seed).tobytes(), np.uint32))


@op("RandomUniform")
class RandomUniform(Random):
    """Numbers from ``[low, high)``, each as likely as any other; see :class:`Random`."""

    shape: tuple[Dim, ...] | None = None
    low: float = 0.0
    high: float = 1.0
    dtype: DType = F32
    seed: float | None = None

    def drawn(self, source: np.random.RandomState, shape: tuple[int, ...]) -> Any:
        return source.uniform(self.low, self.high, shape)


@op("RandomNormal")
class RandomNormal(Random):
    """Numbers of a normal distribution with ``mean`` and the standard deviation ``scale``; see
    :class:`Random`.
    """

    shape: tuple[Dim, ...] | None = None
    mean: float = 0.0
    scale: float = 1.0
    dtype: DType = F32
    seed: float | None = None

    def drawn(self, source: np.random.RandomState, shape: tuple[int, ...]) -> Any:
        return source.normal(self.mean, self.scale, shape)


def seed_of(i: Importer) -> float | None:
    """The attribute ``seed``, a float or an integer; None where the node has none."""
    seed = i.attr("seed")
    if seed is None:
        return None
    if not np.isfinite(seed):
        raise i.fail(f"the seed {seed} is not a number")
    return float(seed)


_LIMITS: dict[type[Random], tuple[tuple[str, float], tuple[str, float]]] = {
    RandomUniform: (("low", 0.0), ("high", 1.0)),
    RandomNormal: (("mean", 0.0), ("scale", 1.0)),
}


def _made(i: Importer, cls: Any, shape: tuple[Dim, ...] | None, dtype: DType) -> Any:
    first, second = (float(i.attr(name, default)) for name, default in _LIMITS[cls])
    if cls is RandomNormal and second < 0:
        raise i.fail(f"a scale of {second}: a standard deviation is not negative")
    return cls(shape, first, second, dtype, seed_of(i))


def _mappings(cls: type[Random]) -> dict[Any, Any]:
    def convert(i: Importer) -> Any:
        shape = tuple(int(size) for size in i.required_attr("shape"))
        return i.emit(_made(i, cls, shape, dtype_attribute(i, i.attr("dtype", 1))))

    def convert_like(i: Importer) -> Any:
        x, given = i.input(0), i.attr("dtype")
        dtype = x.type.dtype if given is None else dtype_attribute(i, given)
        return i.emit(_made(i, cls, None, dtype), x)

    return {(cls.name, 1): convert, (f"{cls.name}Like", 1): convert_like}


def _samples(cls: Any) -> tuple[Sample, ...]:
    return (
        *(Sample(cls((2, 3), 0.25, 2.0, dtype, 1.0), ()) for dtype in (F32, F64, F16, BF16)),
        Sample(cls(seed=0.5), (arg(F32, symbol("N"), 3),)),
        Sample(cls(dtype=F64, seed=7.0), (arg(I32, 4),)),
        Sample(cls((), seed=2.0), ()),
        Sample(cls((2, 0), seed=2.0), ()),
        Sample(cls((2,), dtype=I32), (), "random numbers of i32"),
        Sample(cls(), (), "it needs a shape"),
    )


def _import_bernoulli(i: Importer) -> Any:
    """1 with the probability that an element is; the body in ONNX's specification gives 0 with it."""
    x, given = i.input(0), i.attr("dtype")
    ones = i.emit(Less(), i.emit(RandomUniform(dtype=x.type.dtype, seed=seed_of(i)), x), x)
    return i.emit(Cast(x.type.dtype if given is None else dtype_attribute(i, given)), ones)


RandomUniform.onnx, RandomUniform.samples = _mappings(RandomUniform), _samples(RandomUniform)
RandomUniform.onnx = {**RandomUniform.onnx, ("Bernoulli", 15): _import_bernoulli}
RandomNormal.onnx, RandomNormal.samples = _mappings(RandomNormal), _samples(RandomNormal)
