"""Floats of at most 8 bits and integers of fewer in emitted C: every code and every 16-bit float, against
ml_dtypes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.ir.loops.interpret import interpret
from graphwright.ir.loops.text import parse_kernel, print_kernel
from graphwright.ir.loops.verify import verify
from graphwright.ir.types import DTYPES, F32
from graphwright.ops.core.cast import Cast
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.harness import RUNNABLE
from tests.targets.cpu.generated import compiled, outputs

Array = np.ndarray[Any, Any]
ISAS = pytest.mark.parametrize("isa", RUNNABLE, ids=lambda isa: isa.name)

FLOATS = ("f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0", "f4e2m1", "f6e2m3", "f6e3m2")
INTEGERS = ("i4", "u4", "i2", "u2")
CODES = np.arange(256, dtype=np.uint8)
HALVES = np.arange(1 << 16, dtype=np.uint16)


def run(body: str, parameters: str, arrays: dict[str, Array], isa: Isa, output: str = "y") -> Array:
    """The result of a vector loop in emitted C, with a partial vector at the end and another chunking."""
    kernel = parse_kernel(f"kernel k({parameters}) sizes(N) {{ {body} }}")
    verify(kernel)
    assert parse_kernel(print_kernel(kernel)) == kernel
    library, sizes = compiled((kernel,), isa), {"N": len(arrays["x"])}
    whole = outputs(library, kernel, arrays, sizes, [output])[output]
    parts = outputs(library, kernel, arrays, sizes, [output], 3, "end")[output]
    assert parts.tobytes() == whole.tobytes()
    return whole


def converted(x: Array, source: str, target: str, isa: Isa) -> Array:
    y = np.zeros(len(x), DTYPES[target].numpy)
    return run(
        f"vector i < N {{ y[i] = {target}(x[i]) }}",
        f"x: {source}[N], y: {target}[N]",
        {"x": x, "y": y},
        isa,
    )


@ISAS
@pytest.mark.parametrize("name", (*FLOATS, *INTEGERS))
def test_every_code_is_decoded_as_ml_dtypes_does(name: str, isa: Isa) -> None:
    x = CODES.view(DTYPES[name].numpy)[: -1 if name == "f8e8m0" else None]  # an odd count
    if DTYPES[name].bits < 8 and name in FLOATS:
        x = x[: 1 << DTYPES[name].bits]
    assert converted(x, name, "f32", isa).tobytes() == x.astype(np.float32).tobytes()


@ISAS
@pytest.mark.parametrize("name", FLOATS)
def test_every_16_bit_float_is_encoded_as_ml_dtypes_does(name: str, isa: Isa) -> None:
    for half in ("f16", "bf16"):
        x = HALVES.view(DTYPES[half].numpy)
        with np.errstate(all="ignore"):
            expected = x.astype(np.float32).astype(DTYPES[name].numpy)
        assert converted(x, half, name, isa).tobytes() == expected.tobytes()


@ISAS
@pytest.mark.parametrize("name", FLOATS)
def test_floats_near_the_middle_of_two_codes_round_correctly(name: str, isa: Isa) -> None:
    dtype = DTYPES[name].numpy
    finite = CODES[: 1 << DTYPES[name].bits].view(dtype).astype(np.float32)
    finite = np.unique(finite[np.isfinite(finite)])
    middles = (finite[1:].astype(np.float64) + finite[:-1]) / 2
    middles = np.append(middles, [1.5 * v for v in (finite[0], finite[-1])]).astype(np.float32)
    drawn = np.random.default_rng(0).integers(0, 1 << 32, 100_000, dtype=np.uint32).view(np.float32)
    x = np.concatenate([middles, np.nextafter(middles, -np.inf), np.nextafter(middles, np.inf), drawn])
    with np.errstate(all="ignore"):
        expected = x.astype(dtype)
    assert converted(x.astype(np.float32), "f32", name, isa).tobytes() == expected.tobytes()


@ISAS
@pytest.mark.parametrize("name", INTEGERS)
def test_integers_wrap_to_fewer_bits(name: str, isa: Isa) -> None:
    x = np.arange(-1000, 1003, dtype=np.int32)
    for source in ("i32", "f32"):
        given_ = x.astype(DTYPES[source].numpy)
        expected = x.astype(DTYPES[name].numpy)
        assert converted(given_, source, name, isa).tobytes() == expected.tobytes()
    codes = CODES.view(DTYPES[name].numpy)
    for target in ("i8", "i64", "bool", "f16"):
        expected = codes.astype(DTYPES[target].numpy)
        assert converted(codes, name, target, isa).tobytes() == expected.tobytes()


@ISAS
@pytest.mark.parametrize("name", ("f8e4m3fn", "f8e5m2"))
def test_values_of_small_types_are_rounded_after_each_function(name: str, isa: Isa) -> None:
    dtype = DTYPES[name].numpy
    x = CODES.view(dtype)
    body = "vector i < N { y[i] = (x[i] + x[N - 1 - i]) * x[i] }"
    with np.errstate(all="ignore"):
        expected = (x + x[::-1]) * x
    arrays = {"x": x, "y": np.zeros(256, dtype)}
    found = run(body, f"x: {name}[N], y: {name}[N]", arrays, isa)
    np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))


@ISAS
@settings(max_examples=8, deadline=None)
@given(st.integers(1, 40), st.sampled_from(("f32", "f16", "f8e8m0", "i8")))
def test_bits_are_read_as_another_dtype(isa: Isa, count: int, name: str) -> None:
    unsigned = {32: "u32", 16: "u16", 8: "u8"}[DTYPES[name].bits]
    rng = np.random.default_rng(count)
    x = rng.integers(0, 200, count).astype(DTYPES[unsigned].numpy)
    body = f"vector i < N {{ y[i] = bits_{name}(x[i]) z[i] = bits_{unsigned}(y[i]) }}"
    parameters = f"x: {unsigned}[N], y: {name}[N], z: {unsigned}[N]"
    arrays = {"x": x, "y": np.zeros(count, DTYPES[name].numpy), "z": np.zeros_like(x)}
    assert run(body, parameters, arrays, isa).tobytes() == x.tobytes()
    assert run(body, parameters, arrays, isa, "z").tobytes() == x.tobytes()
    expected = {k: v.copy() for k, v in arrays.items()}
    interpret(parse_kernel(f"kernel k({parameters}) sizes(N) {{ {body} }}"), expected, {"N": count})
    assert expected["z"].tobytes() == x.tobytes()


SHARED_EXPONENTS = (
    (1.0, "up", 127), (1.0, "down", 127), (1.5, "nearest", 128), (1.5, "down", 127), (1.25, "up", 128),
    (1.25, "nearest", 127), (-4.0, "up", 129), (3.0e38, "up", 254),
    (np.inf, "down", 254), (np.nan, "up", 255),
    (0.0, "up", 0), (1e-45, "up", 1), (1e-45, "nearest", 0),
)  # fmt: skip
"""A float, a round mode, and the biased exponent that ONNX's table of conversions to f8e8m0 gives."""


@pytest.mark.parametrize(("value", "mode", "code"), SHARED_EXPONENTS)
def test_powers_of_two_are_rounded_as_asked(value: float, mode: str, code: int) -> None:
    made = Cast(DTYPES["f8e8m0"], round_mode=mode).reference(np.array([value], F32.numpy))
    assert made.view(np.uint8)[0] == code
