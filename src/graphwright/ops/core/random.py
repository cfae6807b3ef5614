"""RandomUniform, RandomNormal, the ONNX ops RandomUniformLike and RandomNormalLike, and Bernoulli."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.op import Array, Fact, Importer, Inference, Op, Sample, Trait, arg, op
from graphwright.ir.symbols import Dim, symbol
from graphwright.ir.types import BF16, F16, F32, F64, I32, DType, TensorType
from graphwright.ops.core.binary import Less
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.checks import FLOATS
from graphwright.ops.core.imports import dtype_attribute
from graphwright.ops.core.size_inference import number

Source = np.random.RandomState | np.random.Generator


class Random(Op):
    """Base class of ops that draw random tensors of ``shape``, or of the shape of the operand.

    With a ``seed``, every run draws the same numbers, and the numbers are those of NumPy's ``RandomState``
    with this seed, a Mersenne Twister (Matsumoto and Nishimura 1998). Without one, every run draws other
    numbers, from NumPy's default generator, which is faster.
    """

    traits = Trait.EFFECT
    shape: tuple[Dim, ...] | None
    dtype: DType
    seed: float | None

    def infer(self, at: Inference, x: Fact | None = None) -> TensorType:
        if self.dtype not in FLOATS:
            raise at.fail(f"the dtype is {self.dtype}; only floats can be drawn")
        if self.shape is None and x is None:
            raise at.fail("it needs the attribute shape or an operand")
        return TensorType(self.dtype, self.shape if x is None else x.type.shape)

    def reference(self, x: Array | None = None) -> Array:
        shape = tuple(map(number, self.shape or ())) if x is None else x.shape
        return np.asarray(self.draw(generator(self.seed), shape)).astype(self.dtype.numpy)

    def draw(self, source: Source, shape: tuple[int, ...]) -> Any:
        """Draws an f64 array of ``shape`` from the distribution of the op."""
        raise NotImplementedError(self.name)


def generator(seed: float | None) -> Source:
    """NumPy's ``RandomState`` with ``seed``, or its default generator with a random seed if it is None.

    An integer in [0, 2**32) is the seed itself; for other numbers, the seed is the bit pattern of the f64.
    """
    if seed is None:
        return np.random.default_rng()
    if seed == int(seed) and 0 <= seed < 2**32:
        return np.random.RandomState(int(seed))
    return np.random.RandomState(np.frombuffer(np.float64(seed).tobytes(), np.uint32))


@op("RandomUniform")
class RandomUniform(Random):
    """Random numbers, uniformly distributed in ``[low, high)``; see :class:`Random`."""

    shape: tuple[Dim, ...] | None = None
    low: float = 0.0
    high: float = 1.0
    dtype: DType = F32
    seed: float | None = None

    def draw(self, source: Source, shape: tuple[int, ...]) -> Any:
        return source.uniform(self.low, self.high, shape)


@op("RandomNormal")
class RandomNormal(Random):
    """Random numbers, normally distributed with ``mean`` and the standard deviation ``scale``; see
    :class:`Random`.
    """

    shape: tuple[Dim, ...] | None = None
    mean: float = 0.0
    scale: float = 1.0
    dtype: DType = F32
    seed: float | None = None

    def draw(self, source: Source, shape: tuple[int, ...]) -> Any:
        return source.normal(self.mean, self.scale, shape)


def seed_of(i: Importer) -> float | None:
    """The attribute ``seed``, a float or an integer; None if it is absent."""
    seed = i.attr("seed")
    if seed is None:
        return None
    if not np.isfinite(seed):
        raise i.fail(f"the seed {seed} is not a number")
    return float(seed)


_PARAMETERS: dict[type[Random], tuple[tuple[str, float], tuple[str, float]]] = {
    RandomUniform: (("low", 0.0), ("high", 1.0)),
    RandomNormal: (("mean", 0.0), ("scale", 1.0)),
}


def _sampler(i: Importer, cls: Any, shape: tuple[Dim, ...] | None, dtype: DType) -> Any:
    first, second = (float(i.attr(name, default)) for name, default in _PARAMETERS[cls])
    if cls is RandomNormal and second < 0:
        raise i.fail(f"the scale {second} is negative; it is a standard deviation, which must be at least 0")
    return cls(shape, first, second, dtype, seed_of(i))


def _mappings(cls: type[Random]) -> dict[Any, Any]:
    def convert(i: Importer) -> Any:
        shape = tuple(int(size) for size in i.required_attr("shape"))
        return i.emit(_sampler(i, cls, shape, dtype_attribute(i, i.attr("dtype", 1))))

    def convert_like(i: Importer) -> Any:
        x, given = i.input(0), i.attr("dtype")
        dtype = x.type.dtype if given is None else dtype_attribute(i, given)
        return i.emit(_sampler(i, cls, None, dtype), x)

    return {(cls.name, 1): convert, (f"{cls.name}Like", 1): convert_like}


def _samples(cls: Any) -> tuple[Sample, ...]:
    return (
        *(Sample(cls((2, 3), 0.25, 2.0, dtype, 1.0), ()) for dtype in (F32, F64, F16, BF16)),
        Sample(cls(seed=0.5), (arg(F32, symbol("N"), 3),)),
        Sample(cls(dtype=F64, seed=7.0), (arg(I32, 4),)),
        Sample(cls((), seed=2.0), ()),
        Sample(cls((2, 0), seed=2.0), ()),
        Sample(cls((2,), dtype=I32), (), "the dtype is i32"),
        Sample(cls(), (), "it needs the attribute shape"),
    )


def _import_bernoulli(i: Importer) -> Any:
    """Each element is the probability of a 1. The function body in ONNX's specification is wrong: it gives 0
    with this probability.
    """
    x, given = i.input(0), i.attr("dtype")
    ones = i.emit(Less(), i.emit(RandomUniform(dtype=x.type.dtype, seed=seed_of(i)), x), x)
    return i.emit(Cast(x.type.dtype if given is None else dtype_attribute(i, given)), ones)


RandomUniform.onnx, RandomUniform.samples = _mappings(RandomUniform), _samples(RandomUniform)
RandomUniform.onnx = {**RandomUniform.onnx, ("Bernoulli", 15): _import_bernoulli}
RandomNormal.onnx, RandomNormal.samples = _mappings(RandomNormal), _samples(RandomNormal)
