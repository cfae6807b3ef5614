"""Names, dtypes and shapes of inputs and outputs, as users see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphwright.ir.dtypes import MAX_RANK, DType, dtype_named
from graphwright.records import dataclass


@dataclass(frozen=True)
class TensorSpec:
    """An input or output. Dims are numbers or expressions over symbols, such as ``2*N``; the shape is None if
    the rank is unknown.
    """

    name: str
    dtype: DType
    shape: tuple[int | str, ...] | None

    @property
    def type_text(self) -> str:
        """The type as text, such as ``f32[N, 3]``, or ``f32[*]`` if the rank is unknown."""
        return f"{self.dtype}[{'*' if self.shape is None else ', '.join(map(str, self.shape))}]"

    @property
    def sizes(self) -> tuple[int, ...] | None:
        """The shape if it is static, else None."""
        sizes = tuple(dim for dim in self.shape or () if isinstance(dim, int))
        return None if self.shape is None or len(sizes) < len(self.shape) else sizes

    def accepts(self, shape: Sequence[int]) -> bool:
        """Whether ``shape`` has this rank and these static sizes. A container accepts any shape."""
        if self.dtype.element is not None:
            return True
        if self.shape is None or len(self.shape) != len(shape):
            return False
        return all(
            size == known for size, known in zip(shape, self.shape, strict=True) if isinstance(known, int)
        )

    def __str__(self) -> str:
        return f"{self.name}: {self.type_text}"


def static_shapes(specs: Sequence[TensorSpec]) -> tuple[tuple[int, ...], ...] | None:
    """The shapes of these inputs, () for containers; None if one is not static."""
    sizes = [() if spec.dtype.element is not None else spec.sizes for spec in specs]
    known = tuple(each for each in sizes if each is not None)
    return known if len(known) == len(sizes) else None


def shapes_text(specs: Sequence[TensorSpec]) -> str:
    """The shapes of inputs in the syntax of the command line: ``x:N,3 y:4``."""
    return " ".join(f"{spec.name}:{_dims_text(spec.shape)}" for spec in specs)


def _dims_text(shape: Sequence[int | str] | None) -> str:
    return "*" if shape is None else ",".join(map(str, shape))


def encode_spec(spec: TensorSpec) -> list[Any]:
    """The spec as a JSON value: name, dtype and shape."""
    return [spec.name, spec.dtype.name, spec.shape]


def decode_spec(plain: Any) -> TensorSpec:
    """The inverse of :func:`encode_spec`. Raises KeyError, TypeError or ValueError."""
    name, dtype, shape = plain
    dims = None if shape is None else tuple(int(d) if isinstance(d, int) else str(d) for d in shape)
    if dims is not None and (len(dims) > MAX_RANK or any(isinstance(d, int) and d < 0 for d in dims)):
        raise ValueError(f"{str(name)!r} has an invalid shape: {list(dims)}")
    return TensorSpec(str(name), dtype_named(dtype), dims)
