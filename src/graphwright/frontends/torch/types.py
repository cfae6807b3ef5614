"""Converts dtypes, sizes and tensors between PyTorch and graphwright."""

from __future__ import annotations

from fractions import Fraction
from functools import cache, reduce
from typing import Any

import numpy as np
import sympy
import torch
from torch._subclasses import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._sympy import functions as torch_sympy

from graphwright.ir.op import Array
from graphwright.ir.symbols import Dim, floordiv, maximum, minimum, mod, product, symbol
from graphwright.ir.types import DTYPES, U64, DType, TensorType, dtype_of

_NAMES = {
    torch.bool: "bool", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.uint8: "u8", torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64",
    torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64",
    torch.float8_e4m3fn: "f8e4m3fn", torch.float8_e4m3fnuz: "f8e4m3fnuz",
    torch.float8_e5m2: "f8e5m2", torch.float8_e5m2fnuz: "f8e5m2fnuz",
}  # fmt: skip
_DTYPES = {theirs: DTYPES[name] for theirs, name in _NAMES.items()}

_WORDS = {8: torch.int8, 16: torch.int16}

_GUESS = sympy.Integer(4099)
"""The assumed value of an unknown size: a prime, which has no common factor with other sizes."""

_LARGEST_DENOMINATOR = 1 << 12
"""The largest denominator of a fraction that is recognized in a product such as ``size * 0.3``."""
_LONGEST = 1 << 18
"""Up to this size, products with a fraction are compared with those in floats."""

_DLPACK = {"int": 0, "uint": 1, "float": 2, "bool": 6}
_DLPACK_COMPLEX = 5
_DLPACK_FLOATS = {"bf16": 4, "f8e4m3fn": 10, "f8e4m3fnuz": 11, "f8e5m2": 12, "f8e5m2fnuz": 13}


def dlpack_type(dtype: DType, is_complex: bool = False) -> tuple[int, int]:
    """The type code of ``dtype`` in DLPack, and its number of bits. If ``is_complex``, those of the complex
    dtype that is stored as ``dtype``.
    """
    if is_complex:
        return _DLPACK_COMPLEX, dtype.bits * (1 if dtype == U64 else 2)
    return _DLPACK_FLOATS.get(dtype.name, _DLPACK[dtype.kind]), dtype.bits


class Unsupported(Exception):
    """Raised with a reason for everything that graphwright does not support. The operator then runs in
    PyTorch.
    """


def dtype_from(dtype: torch.dtype) -> DType:
    """The dtype of graphwright for ``dtype``. Raises Unsupported."""
    try:
        return _DTYPES[dtype]
    except KeyError:
        raise Unsupported(f"tensors of {dtype} are not supported") from None


def torch_dtype(dtype: DType) -> torch.dtype:
    """The dtype of PyTorch for ``dtype``: they have the names of NumPy's and ml_dtypes' types. Raises
    Unsupported.
    """
    found = getattr(torch, str(dtype.numpy), None)
    if not isinstance(found, torch.dtype):
        raise Unsupported(f"PyTorch has no dtype for {dtype}")
    return found


@cache
def saturates(dtype: DType) -> bool:
    """Whether PyTorch converts a large float to the largest number of ``dtype``. Its 8-bit floats differ."""
    if not dtype.is_float or dtype.bits > 8:
        return True
    with _disable_current_modes():
        return bool(torch.tensor(1e9).to(torch_dtype(dtype)).float().isfinite())


def type_from(tensor: torch.Tensor) -> TensorType:
    """The type of a tensor, with symbols for dynamic sizes. Raises Unsupported unless it is a strided CPU
    tensor.
    """
    _require_strided(tensor)
    return TensorType(dtype_from(tensor.dtype), tuple(map(dim_from, tensor.shape)))


def part_type_from(tensor: torch.Tensor) -> TensorType:
    """As :func:`type_from`, for the real part of a complex tensor."""
    _require_strided(tensor)
    return TensorType(dtype_from(tensor.dtype.to_real()), tuple(map(dim_from, tensor.shape)))


def stored_type_from(tensor: torch.Tensor) -> TensorType:
    """As :func:`type_from`, for an input or output of a module: 64 bits of an integer for an element of
    complex64, with the real part in the lower half, and parts along a last axis for other complex dtypes.
    """
    if not tensor.is_complex():
        return type_from(tensor)
    part = part_type_from(tensor)
    return (
        TensorType(U64, part.dims)
        if tensor.dtype == torch.complex64
        else TensorType(part.dtype, (*part.dims, 2))
    )


def _require_strided(tensor: torch.Tensor) -> None:
    if tensor.layout != torch.strided:
        raise Unsupported(f"tensors with the layout {tensor.layout} are not supported")
    if tensor.device.type != "cpu":
        raise Unsupported(f"tensors on {tensor.device} are not supported: graphwright runs on the CPU")


def types_agree(imported: TensorType, stated: TensorType) -> bool:
    """Whether two types agree. Symbolic sizes are not compared, as equal sizes can be different
    expressions.
    """
    if imported.dtype != stated.dtype or imported.rank != stated.rank:
        return False
    pairs = zip(imported.dims, stated.dims, strict=True)
    return all(a == b for a, b in pairs if isinstance(a, int) and isinstance(b, int))


def is_lazy(tensor: torch.Tensor) -> bool:
    """Whether the elements of ``tensor`` are negated or conjugated when they are read."""
    return tensor.is_neg() or tensor.is_conj()


def has_elements(tensor: torch.Tensor) -> bool:
    """Whether ``tensor`` has elements in memory. Fake tensors, zero tensors, tensors in functorch transforms,
    batches of gradients, and tensors that are not strided do not.
    """
    if isinstance(tensor, FakeTensor) or not torch._C._has_storage(tensor) or tensor._is_zerotensor():
        return False
    return tensor.layout == torch.strided and tensor.device.type == "cpu"


def array_from(tensor: torch.Tensor) -> Array:
    """The elements of ``tensor``; complex ones as :func:`stored_type_from` says. They share its memory if it
    is contiguous.
    """
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if flat.dtype == torch.complex64:
        return np.asarray(flat.view(torch.int64).numpy().view(np.uint64))
    if flat.is_complex():
        return np.asarray(torch.view_as_real(flat).numpy())
    known = _DTYPES.get(tensor.dtype)
    if known is not None and known.name in _DLPACK_FLOATS:  # NumPy alone does not have them
        return np.asarray(flat.view(_WORDS[known.bits]).numpy().view(known.numpy))
    return np.asarray(flat.numpy())


def tensor_from(array: Array) -> torch.Tensor:
    """A tensor in the memory of ``array``, or in a copy if ``array`` is read-only."""
    array = array if array.flags.writeable else array.copy()
    known = dtype_of(array)
    if known.name in _DLPACK_FLOATS:
        made = torch.from_numpy(array.view(f"i{known.bits // 8}")).view(torch_dtype(known))
    else:
        made = torch.from_numpy(array)
    return made if array.size else made.new_empty(array.shape)  # NumPy's strides are 0 without elements


def complex_from(array: Array) -> torch.Tensor:
    """As :func:`tensor_from`, for the elements of a complex tensor: the inverse of :func:`array_from`."""
    if array.dtype == np.uint64:
        return tensor_from(array.view(np.int64)).view(torch.complex64)
    return torch.view_as_complex(tensor_from(array))


def order_in_memory(tensor: torch.Tensor) -> tuple[int, ...]:
    """The order of axes in which a tensor is contiguous, such as channels_last; the identity if there is
    none.
    """
    strides = [size_hint(stride) for stride in tensor.stride()]
    sizes = [size_hint(size) for size in tensor.shape]
    axes = range(tensor.dim())
    dense = tuple(sorted(axes, key=lambda axis: (-strides[axis], -sizes[axis])))
    expected = 1
    for axis in reversed(dense):
        if strides[axis] != expected and sizes[axis] != 1:
            return tuple(axes)
        expected *= sizes[axis]
    moved = [axis for axis in dense if sizes[axis] != 1]
    return tuple(axes) if moved == sorted(moved) else dense


def size_hint(size: Any) -> int:
    """The value of a size when the graph was captured; a guess if it is data-dependent."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    if isinstance(size.node.hint, int):
        return size.node.hint
    free = {each: _GUESS for each in size.node.expr.free_symbols}
    return int(size.node.expr.xreplace(free))


def dim_from(size: Any) -> Dim:
    """The dim for a size of PyTorch: a number or an expression over symbols. Raises Unsupported."""
    if isinstance(size, torch.SymInt):
        if size.node.is_nested_int():
            raise Unsupported("sizes of nested tensors are not supported")
        return dim_from_expression(size.node.expr)
    return int(size)


def dim_from_expression(e: sympy.Expr) -> Dim:
    """The dim for an expression over symbols of PyTorch. Raises Unsupported."""
    if e.is_Integer:
        return int(e)
    if e.is_Symbol:
        return symbol(e.name)
    if isinstance(e, torch_sympy.TruncToInt | torch_sympy.FloorToInt | torch_sympy.CeilToInt):
        return _rounded(e)
    operands = [dim_from_expression(arg) for arg in e.args]
    match e:
        case sympy.Add():
            return sum(operands)
        case sympy.Mul():
            return product(operands)
        case sympy.Pow() if isinstance(operands[1], int) and operands[1] >= 0:
            return product(operands[:1] * operands[1])
        case torch_sympy.FloorDiv() | torch_sympy.CleanDiv():
            return floordiv(*operands)
        case torch_sympy.Mod() | torch_sympy.PythonMod():
            return mod(*operands)
        case torch_sympy.ModularIndexing():
            return mod(floordiv(operands[0], operands[1]), operands[2])
        case sympy.Max() | torch_sympy.Max():
            return reduce(maximum, operands)
        case sympy.Min() | torch_sympy.Min():
            return reduce(minimum, operands)
    raise Unsupported(f"a size is {e}")


def _rounded(e: sympy.Expr) -> Dim:
    """A multiple of a size by a fraction, rounded to an integer, as in ``int(size * 0.5)``."""
    (scaled,) = e.args
    match e, scaled:
        case (_, torch_sympy.IntTrueDiv(args=(size, sympy.Integer() as divisor))) if divisor > 0:
            ratio = Fraction(1, int(divisor))
        case (_, sympy.Mul(args=(sympy.Float() as scale, torch_sympy.ToFloat(args=(size,))))) if scale > 0:
            ratio = _fraction(float(scale))
        case _:
            raise Unsupported(f"a size is {e}")
    if isinstance(e, torch_sympy.TruncToInt) and not size.is_nonnegative:
        raise Unsupported(f"a size is {e}, and {size} can be negative")
    above = ratio.denominator - 1 if isinstance(e, torch_sympy.CeilToInt) else 0
    return floordiv(dim_from_expression(size) * ratio.numerator + above, ratio.denominator)


@cache
def _fraction(scale: float) -> Fraction:
    """The fraction that was written as ``scale``: products with sizes round to the same integers."""
    fraction = Fraction(scale).limit_denominator(_LARGEST_DENOMINATOR)
    sizes = np.arange(_LONGEST)
    exact, above = sizes * fraction.numerator, fraction.denominator - 1
    floors = np.array_equal(np.floor(sizes * scale), exact // fraction.denominator)
    ceils = np.array_equal(np.ceil(sizes * scale), (exact + above) // fraction.denominator)
    if float(fraction) != scale or not (floors and ceils):
        raise Unsupported(f"a size is multiplied by {scale}, not by a fraction with a small denominator")
    return fraction
