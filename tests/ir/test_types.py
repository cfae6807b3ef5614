"""Dtypes, tensor types and layouts, and their texts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import graphwright.ops
from graphwright.ir.symbols import SymbolError, floordiv, symbol
from graphwright.ir.text import parse_module, print_module
from graphwright.ir.types import (
    DTYPES,
    F32,
    I64,
    STRING,
    DType,
    Layout,
    TensorType,
    dtype_named,
    dtype_of,
    optional_of,
    parse_type,
    sequence_of,
    tensor,
    type_of,
)

from .support import types

graphwright.ops.load()
N, H = symbol("N"), symbol("H")


@settings(max_examples=200, deadline=None)
@given(types())
def test_text_comes_back(type: TensorType) -> None:
    assert parse_type(str(type)) == type


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_numpy_dtypes_are_mapped_both_ways(dtype: object) -> None:
    array = np.empty(2, dtype.numpy)  # type: ignore[attr-defined]
    assert dtype_of(array) is dtype
    if dtype is not STRING:
        assert array.dtype.itemsize == dtype.bytes  # type: ignore[attr-defined]


def test_types_of_numpy_arrays() -> None:
    assert dtype_of(np.array(["a"])) is STRING
    assert dtype_of(np.zeros(1, ">f4")) is F32
    assert type_of(np.zeros((2, 0), np.int64)) == tensor(I64, 2, 0)
    with pytest.raises(TypeError, match="datetime64"):
        dtype_of(np.zeros(1, "datetime64[s]"))


def test_sizes_and_ranks_of_tensor_types() -> None:
    assert tensor(F32, 2, 3).bytes == 24
    assert tensor(F32, N, 3).elements == 3 * N
    assert tensor(F32, 2).is_static
    assert not tensor(F32, N).is_static
    unknown = TensorType(F32, None)
    assert (unknown.rank, unknown.is_static) == (None, False)
    with pytest.raises(TypeError, match="rank is unknown"):
        _ = unknown.dims


@pytest.mark.parametrize("text", ["f32", "f99[2]", "f32[2", "f32[2,, 3]", "[2]", "f32[N M]"])
def test_bad_text_is_rejected(text: str) -> None:
    with pytest.raises((ValueError, SymbolError)):
        parse_type(text)


@pytest.mark.parametrize(
    ("layout", "shape", "physical", "text"),
    [
        (Layout((0, 1, 2, 3)), (1, 3, H, 5), (1, 3, H, 5), "layout(0 1 2 3)"),
        (Layout((0, 2, 3, 1)), (N, 3, 4, 5), (N, 4, 5, 3), "layout(0 2 3 1)"),
        (Layout((0, 1, 2, 3), ((1, 16),)), (N, 20, 4, 5), (N, 2, 4, 5, 16), "layout(0 1 2 3, 1/16)"),
        (
            Layout((1, 0), ((1, 32),), zero_padded=True),
            (64, N),
            (floordiv(N + 31, 32), 64, 32),
            "layout(1 0, 1/32, zero)",
        ),
    ],
)
def test_layouts_have_a_physical_shape_and_a_text(
    layout: Layout, shape: tuple[int, ...], physical: tuple[int, ...], text: str
) -> None:
    assert layout.physical_shape(shape) == physical
    assert str(layout) == text


def test_sizes_are_ints_or_rejected() -> None:
    assert tensor(F32, 2, 0, 3).sizes == (2, 0, 3)
    with pytest.raises(TypeError, match="N is not a number"):
        _ = tensor(F32, 2, symbol("N")).sizes
    with pytest.raises(TypeError, match="rank is unknown"):
        _ = TensorType(F32, None).sizes


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_container_types_are_parsed_from_their_text(dtype: DType) -> None:
    for made in (sequence_of(dtype), optional_of(dtype), optional_of(sequence_of(dtype))):
        assert dtype_named(str(made)) is made
        assert parse_type(str(tensor(made))) == tensor(made)
        assert made.numpy.hasobject and not made.is_integer and not made.is_float


@pytest.mark.parametrize("name", ["seq()", "seq(f33)", "optional(f32", "list(f32)", "seq", "seq(f32))"])
def test_malformed_containers_are_no_dtypes(name: str) -> None:
    with pytest.raises(KeyError):
        dtype_named(name)
    with pytest.raises(ValueError, match="is not a type"):
        parse_type(f"{name}[]")


def test_lists_are_sequences_of_their_elements() -> None:
    assert str(type_of([np.zeros((2, 3), np.float64)])) == "seq(f64)[]"  # type: ignore[arg-type]
    assert str(type_of([])) == "seq(f32)[]"  # type: ignore[arg-type]


def test_modules_with_container_types_are_parsed_from_their_text() -> None:
    text = """module {
  graph main(%a: f32[2], %o: optional(seq(i64))[]) {
    %s = SequenceConstruct(%a): seq(f32)[]
    %p = Optional[element=seq(f32)](%s): optional(seq(f32))[]
    %e = Optional[element=seq(i64)]: optional(seq(i64))[]
    return %p, %o, %e
  }
}
"""
    assert print_module(parse_module(text)) == text
