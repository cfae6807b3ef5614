"""Complex tensors of exported programs as pairs of tensors, and their Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from graphwright.frontends.torch.types import Unsupported, array_from, part_type_from, types_agree
from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.types import F32, U32, U64
from graphwright.ops.core.binary import BitwiseOr, Mul
from graphwright.ops.core.bit_cast import BitCast
from graphwright.ops.core.bit_shift import BitShift
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.checks import rank_of
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.dft import DFT
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.squeeze import Squeeze
from graphwright.ops.core.unary import Neg
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.records import dataclass

COMPLEX_RESULT: Final = "it is complex: return torch.view_as_real of it"
_aten: Final = torch.ops.aten
_POWERS: Final = (0.0, 0.5, 1.0)
"""PyTorch's ``normalization`` of a Fourier transform: the power of the length by which it is divided."""


@dataclass(frozen=True)
class Complex:
    """A complex tensor."""

    real: Value
    imag: Value


def is_complex(node: fx.Node) -> bool:
    """Whether an operand or a result of ``node`` is complex."""
    fakes = tree_leaves([each.meta.get("val") for each in (node, *node.all_input_nodes)])
    return any(isinstance(each, torch.Tensor) and each.dtype.is_complex for each in fakes)


def complex_constant(tensor: torch.Tensor, builder: Builder) -> Complex:
    """A constant that is complex."""
    resolved = tensor.detach().resolve_conj()
    return Complex(*(builder.const(array_from(each)) for each in (resolved.real, resolved.imag)))


def conjugate(b: Builder, x: Complex) -> Complex:
    """``x`` with a negated imaginary part."""
    return Complex(x.real, b(Neg(), x.imag))


def flat_parts(arguments: Sequence[Any]) -> list[Any]:
    """``arguments``, with two values in place of a complex one."""
    return [
        part
        for each in arguments
        for part in ((each.real, each.imag) if isinstance(each, Complex) else (each,))
    ]


def with_pairs(node: fx.Node, results: Any) -> Any:
    """The results of ``node``, given those of its graph :func:`on_parts`. Raises Unsupported if they do not
    have the types that PyTorch inferred.
    """
    fake = node.meta["val"]
    if isinstance(fake, tuple | list):
        return tuple(_pair(one, each) for one, each in zip(fake, results, strict=True))
    return _pair(fake, results)


def _pair(fake: Any, result: Any) -> Any:
    if not isinstance(fake, torch.Tensor) or not fake.dtype.is_complex:
        return result
    stated = part_type_from(fake)
    parts = (result.real, result.imag) if isinstance(result, Complex) else result
    for part in parts:
        if not types_agree(part.type, stated):
            raise Unsupported(f"a part of its result is {part.type}, and {stated} in PyTorch")
    return Complex(*parts)


# ---- as inputs and outputs of modules


def stored(b: Builder, x: Complex) -> Value:
    """``x`` as an output of a module: see :func:`.types.stored_type_from`."""
    if x.real.type.dtype != F32:
        return joined(b, x)
    low, high = (b(Cast(U64), b(BitCast(U32), part)) for part in (x.real, x.imag))
    packed: Value = b(BitwiseOr(), low, b(BitShift("LEFT"), high, b.const(np.asarray(32), U64)))
    return packed


def read(b: Builder, x: Value) -> Complex:
    """The inverse of :func:`stored`."""
    if x.type.dtype != U64:
        return split(b, x)
    words = (x, b(BitShift("RIGHT"), x, b.const(np.asarray(32), U64)))
    return Complex(*(b(BitCast(F32), b(Cast(U32), each)) for each in words))


# ---- Fourier transforms


def fourier(node: fx.Node, arguments: Sequence[Any], builder: Builder) -> Any:
    """The result of ``node`` if it is a Fourier transform, else None. Raises Unsupported."""
    transform = _TRANSFORMS.get(node.target)
    if transform is None:
        return None
    x, axes, normalization, last = arguments
    result: Any = node.meta["val"]
    signal = node.all_input_nodes[0].meta["val"] if result.is_complex() else result
    lengths = [signal.shape[axis] for axis in axes]
    if not all(isinstance(each, int) for each in lengths):
        raise Unsupported("the length of a Fourier transform is dynamic")
    scale = math.prod(lengths) ** -_POWERS[normalization]
    rank = result.dim()
    return transform(builder, x, [axis % rank for axis in axes], last, scale, math.prod(lengths))


def _real_to_complex(
    b: Builder, x: Value, axes: Sequence[int], onesided: bool, scale: float, count: int
) -> Complex:
    *rest, last = axes
    spectrum = b(DFT(last, onesided=onesided), b(Unsqueeze((rank_of(x),)), x))
    for axis in rest:
        spectrum = b(DFT(axis), spectrum)
    return split(b, _scaled(b, spectrum, scale))


def _complex_to_complex(
    b: Builder, x: Complex, axes: Sequence[int], forward: bool, scale: float, count: int
) -> Complex:
    spectrum = joined(b, x)
    for axis in axes:
        spectrum = b(DFT(axis, inverse=not forward), spectrum)
    return split(b, _scaled(b, spectrum, scale if forward else scale * count))


def _complex_to_real(
    b: Builder, x: Complex, axes: Sequence[int], length: int, scale: float, count: int
) -> Value:
    *rest, last = axes
    signal = joined(b, x)
    for axis in rest:
        signal = b(DFT(axis, inverse=True), signal)
    signal = b(DFT(last, inverse=True, onesided=True, length=length), signal)
    real: Value = b(Squeeze((rank_of(signal) - 1,)), _scaled(b, signal, scale * count))
    return real


_TRANSFORMS: Final[Mapping[Any, Callable[..., Any]]] = {
    _aten._fft_r2c.default: _real_to_complex,
    _aten._fft_c2c.default: _complex_to_complex,
    _aten._fft_c2r.default: _complex_to_real,
}


def _scaled(b: Builder, x: Value, scale: float) -> Value:
    if math.isclose(scale, 1.0, rel_tol=1e-12):
        return x
    scaled: Value = b(Mul(), x, b.const(np.asarray(scale), x.type.dtype))
    return scaled


def joined(b: Builder, x: Complex) -> Value:
    """``x`` with a last axis of real and imaginary parts."""
    rank = rank_of(x.real)
    stacked: Value = b(Concat(rank), *(b(Unsqueeze((rank,)), part) for part in (x.real, x.imag)))
    return stacked


def split(b: Builder, x: Value) -> Complex:
    """The inverse of :func:`joined`."""
    last = rank_of(x) - 1
    parts = [b(Slice((k,), (k + 1,), (last,), (1,)), x) for k in range(2)]
    return Complex(*(b(Squeeze((last,)), part) for part in parts))
