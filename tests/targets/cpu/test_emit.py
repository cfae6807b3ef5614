"""Emitted C against the interpreter: texts, random nests, chunkings, guard pages, hooks, hostile names."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphwright.ir.loops.interpret import interpret
from graphwright.ir.loops.nodes import Kernel
from graphwright.ir.loops.text import parse_kernel
from graphwright.ir.loops.verify import verify
from graphwright.ir.types import DTYPES
from graphwright.targets.cpu.emit import emit_file, grid_of, phases, scratch_of
from graphwright.targets.cpu.isa import Isa
from graphwright.targets.cpu.toolchain import LINK_FLAGS, compile_shared
from tests.ir.loops.cases import CASES, Case, arrays_of
from tests.kernels.library.harness import RUNNABLE
from tests.targets.cpu.generated import compiled, guarded, load, outputs, toolchain

ISAS = pytest.mark.parametrize("isa", RUNNABLE, ids=lambda isa: isa.name)
Arrays = dict[str, np.ndarray[Any, Any]]


@ISAS
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_texts_in_c_agree_with_numpy(case: Case, isa: Isa) -> None:
    kernel = parse_kernel(case.text)
    library = compiled((kernel,), isa)
    for sizes in case.sizes:
        arrays = arrays_of(case, kernel, sizes)
        expected = case.expected({n: a.copy() for n, a in arrays.items()}, sizes)
        whole = outputs(library, kernel, arrays, sizes, list(expected))
        for name, value in expected.items():
            np.testing.assert_allclose(whole[name], value, rtol=case.tolerance, atol=case.tolerance)
        for pieces, side in ((2, "start"), (3, "end"), (7, "end")):
            parts = outputs(library, kernel, arrays, sizes, list(expected), pieces, side)
            for name in expected:
                assert parts[name].tobytes() == whole[name].tobytes(), "bits depend on the chunking"


def compare(
    kernel: Kernel,
    arrays: Arrays,
    sizes: dict[str, int],
    isa: Isa,
    tolerance: float,
    library: ctypes.CDLL | None = None,
) -> None:
    """C and interpreter on the same arrays, in one chunk and several."""
    expected = {n: a.copy() for n, a in arrays.items()}
    interpret(kernel, expected, sizes)
    library = library or compiled((kernel,), isa)
    names = [p.name for p in kernel.parameters]
    whole = outputs(library, kernel, arrays, sizes, names)
    for name in names:
        np.testing.assert_allclose(
            whole[name].astype(np.float64),
            expected[name].astype(np.float64),
            rtol=tolerance,
            atol=tolerance,
            err_msg=name,
        )
    parts = outputs(library, kernel, arrays, sizes, names, 3, "start")
    assert all(parts[n].tobytes() == whole[n].tobytes() for n in names)


def kernel_of(body: str, parameters: str, sizes: str = "M, N") -> Kernel:
    kernel = parse_kernel(f"kernel k({parameters}) sizes({sizes}) {{ {body} }}")
    verify(kernel)
    return kernel


SMOOTH = ("neg", "abs", "exp", "tanh", "sigmoid", "sin", "erf")
STEPS = ("floor", "ceil", "round", "trunc", "sign")
"""A rounding error of the operand may change the result by a whole step, so these functions are applied only
to leaves.
"""


@st.composite
def expressions(draw: st.DrawFn, leaves: tuple[str, ...], depth: int = 3) -> str:
    """An f32 value as text."""
    leaf = st.sampled_from(leaves)
    if depth == 0:
        return draw(st.one_of(leaf, st.builds("{}({})".format, st.sampled_from(STEPS), leaf)))
    inner = expressions(leaves, depth - 1)
    kind = draw(st.sampled_from(("smooth", "binary", "select", "leaf")))
    if kind == "smooth":
        return f"{draw(st.sampled_from(SMOOTH))}(min({draw(inner)}, 4.0))"
    if kind == "binary":
        return draw(
            st.sampled_from(("({} + {})", "({} - {})", "({} * {})", "max({}, {})", "min({}, {})"))
        ).format(draw(inner), draw(inner))
    if kind == "select":
        sign = draw(st.sampled_from(("<", "<=", "==")))
        return f"select({draw(leaf)} {sign} {draw(leaf)}, {draw(inner)}, {draw(inner)})"
    return draw(leaf)


_SLOW = dict(deadline=None, suppress_health_check=[HealthCheck.too_slow])
LEAVES = (
    "x[r, c]",
    "b[c]",
    "q[r]",
    "x[r, 0]",
    "0.5:f32",
    "x[r, c + 1 where @(c + 1) < @N else 2.0]",
    "x[r, N - 1 - c]",
    "x[ids[r], c]",
    "b[jds[c]]",
    "f32(jds[c])",
    "f32(@c)",
    "f32(x[r, c] < b[c])",
    "x[r, floordiv(c, 2)]",
)


def sample(rng: np.random.Generator, m: int, n: int) -> Arrays:
    return {
        "x": rng.uniform(-2, 2, (m, n)).astype(np.float32),
        "b": rng.uniform(-2, 2, n).astype(np.float32),
        "q": rng.uniform(-2, 2, m).astype(np.float32),
        "ids": rng.integers(0, m, m) if m else np.zeros(0, np.int64),
        "jds": rng.integers(0, n, n).astype(np.int32) if n else np.zeros(0, np.int32),
        "y": np.zeros((m, n), np.float32),
        "z": np.zeros(m, np.float32),
    }


PARAMETERS = "x: f32[M, N], b: f32[N], q: f32[M], ids: i64[M], jds: i32[N], y: f32[M, N], z: f32[M]"


@settings(max_examples=14, **_SLOW)
@given(
    isa=st.sampled_from(RUNNABLE),
    value=expressions(LEAVES),
    reduced=expressions(LEAVES, 2),
    after=expressions((*LEAVES, "t", "s[]", "y[r, c]"), 2),
    combiner=st.sampled_from(("add", "max", "min")),
    mask=st.sampled_from(("", " where @c < @(N - 1)", " where x[r, c] < 0.0")),
    sizes=st.tuples(st.sampled_from((1, 3)), st.sampled_from((1, 2, 7, 16, 33, 70))),
)
def test_random_row_kernels(
    isa: Isa, value: str, reduced: str, after: str, combiner: str, mask: str, sizes: tuple[int, int]
) -> None:
    body = f"""parallel r < M {{
        s: f32[] register = 0.25
        vector c < N {{ t = {value}  y[r, c] = t  s[] {combiner}= {reduced} }}
        vector c < N {{ t = q[r]  y[r, c{mask}] = {after} }}
        z[r] = s[]
    }}"""
    kernel = kernel_of(body, PARAMETERS)
    m, n = sizes
    compare(kernel, sample(np.random.default_rng(0), m, n), {"M": m, "N": n}, isa, 2e-4)


@settings(max_examples=8, **_SLOW)
@given(
    isa=st.sampled_from(RUNNABLE),
    value=expressions(("x[k, c]", "b[c]", "q[k]", "x[k, c where @c < @(N - 2)]"), 2),
    combiner=st.sampled_from(("add", "max", "min")),
    sizes=st.tuples(st.sampled_from((1, 3)), st.sampled_from((0, 1, 7, 16, 33, 5000))),
)
def test_random_column_kernels(isa: Isa, value: str, combiner: str, sizes: tuple[int, int]) -> None:
    """Accumulators are private to the lanes of a top-level vector loop, which the grid divides into
    blocks.
    """
    body = f"""vector c < N {{
        s: f32[] register = 0.5
        pair: f32[2] register = 1.0
        reduce k < M {{ s[] {combiner}= {value}  pair[0] add= 1.0  pair[1] mul= 2.0 }}
        y[0, c] = s[] + pair[0] * pair[1]
    }}"""
    m, n = sizes
    compare(kernel_of(body, PARAMETERS), sample(np.random.default_rng(1), m, n), {"M": m, "N": n}, isa, 2e-4)


INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
HALVES = ("f16", "bf16")
EDGES = (0, 1, 2, 3, 7, 100, 127)


def values_of(dtype: str, count: int, seed: int = 0) -> np.ndarray[Any, Any]:
    kind = DTYPES[dtype]
    rng = np.random.default_rng(seed)
    if kind.is_float:
        return rng.uniform(-3, 3, count).astype(kind.numpy)
    if dtype == "bool":
        return rng.integers(0, 2, count).astype(np.bool_)
    info = np.iinfo(kind.numpy)
    drawn = rng.integers(info.min, info.max, count, dtype=kind.numpy, endpoint=True)
    edges = np.array([info.min, info.max, *EDGES], kind.numpy)
    drawn[::5] = rng.choice(edges, len(drawn[::5]))
    return drawn


@ISAS
@pytest.mark.parametrize("dtype", (*INTEGERS, "f64", *HALVES))
def test_arithmetic_of_each_dtype(dtype: str, isa: Isa) -> None:
    bits = "a[i] & b[i] | xor(a[i], not(b[i]))" if dtype in INTEGERS else "a[i]"
    shifts = (
        f"shl(a[i], min(b[i], 3)) + shr(a[i], {dtype}(bool(b[i])))"
        if dtype in INTEGERS
        else "sqrt(abs(a[i]))"
    )
    body = f"""vector i < N {{
        y[0, i] = a[i] + b[i] * a[i] - b[i]
        y[1, i] = a[i] / b[i]
        y[2, i] = max(mod(a[i], b[i]), min(a[i], b[i]))
        y[3, i] = rem(a[i], b[i]) + abs(a[i]) + sign(b[i])
        y[4, i] = select(a[i] < b[i], -a[i], b[i])
        y[5, i] = {bits}
        y[6, i] = {shifts}
        t[i] = a[i] <= b[i] & not(a[i] == b[i])
        s[0] max= a[i]
        s[1] min= b[i]
    }}"""
    parameters = f"a: {dtype}[N], b: {dtype}[N], y: {dtype}[7, N], t: bool[N], s: {dtype}[2]"
    kernel = kernel_of(body, parameters, "N")
    for n in (1, 37):
        kind = DTYPES[dtype].numpy
        arrays = {
            "a": values_of(dtype, n),
            "b": values_of(dtype, n, 1),
            "y": np.zeros((7, n), kind),
            "t": np.zeros(n, np.bool_),
            "s": np.ones(2, kind),
        }
        compare(kernel, arrays, {"N": n}, isa, 1e-12 if dtype not in HALVES else 0)


@ISAS
def test_casts_between_all_dtypes(isa: Isa) -> None:
    names = ("bool", *INTEGERS, "f16", "bf16", "f32", "f64")
    kernels = {}
    for source in names:
        stores = " ".join(f"y{target}[i] = {target}(x[i])" for target in names if target != source)
        parameters = ", ".join([f"x: {source}[N]", *(f"y{t}: {t}[N]" for t in names if t != source)])
        kernels[source] = replace(
            kernel_of(f"vector i < N {{ {stores} }}", parameters, "N"), name=f"from_{source}"
        )
    library = compiled(tuple(kernels.values()), isa)
    for source, kernel in kernels.items():
        x = values_of(source, 37)
        if DTYPES[source].is_float:
            x = np.abs(x)  # negative to unsigned is undefined in C and NumPy alike
        elif source in ("i32", "i64", "u32", "u64"):
            x = (x % 1000).astype(x.dtype)  # f16 has no larger ones
        arrays = {"x": x, **{f"y{t}": np.zeros(37, DTYPES[t].numpy) for t in names if t != source}}
        with np.errstate(all="ignore"):
            compare(kernel, arrays, {"N": 37}, isa, 0, library)


@ISAS
def test_bools_in_loads_stores_and_masks(isa: Isa) -> None:
    body = """parallel r < M { vector i < N {
        y[r, i] = (a[i] | b[i]) & xor(a[i], b[i]) | not(a[i]) & @i < @(2*r)
        all[r] and= a[i]
        any[r] or= b[i] & a[i]
        n[r, i] = f32(a[i]) + select(b[i], 2.0:f32, 3.0)
    } }"""
    parameters = "a: bool[N], b: bool[N], y: bool[M, N], all: bool[M], any: bool[M], n: f32[M, N]"
    a, b = values_of("bool", 37), values_of("bool", 37, 1)
    outputs_ = {"y": np.zeros((3, 37), np.bool_), "all": np.ones(3, np.bool_), "any": np.zeros(3, np.bool_)}
    arrays = {"a": a, "b": b, **outputs_, "n": np.zeros((3, 37), np.float32)}
    compare(kernel_of(body, parameters), arrays, {"M": 3, "N": 37}, isa, 0)


SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 1.5, -1.5, 2.5, -0.5, 3e38, 8388609, -4e9], np.float32
)


@ISAS
def test_special_values_follow_numpy(isa: Isa) -> None:
    functions = (*STEPS, "neg", "abs", "sqrt")
    both = (
        "max(x[i], x[j])",
        "min(x[i], x[j])",
        "x[i] / x[j]",
        "select(x[i] < x[j], x[i], x[j])",
        "mod(x[i], x[j])",
    )
    singles = " ".join(f"y[{k}, i] = {f}(x[i])" for k, f in enumerate(functions))
    pairs = " ".join(f"z[{k}, j, i] = {f}" for k, f in enumerate(both))
    tests = "t[0, i] = isnan(x[i]) t[1, i] = isinf(x[i])"
    body = f"vector i < N {{ {singles} {tests} serial j < N {{ {pairs} }} }}"
    n = len(SPECIAL)
    arrays = {
        "x": SPECIAL,
        "y": np.zeros((len(functions), n), np.float32),
        "z": np.zeros((len(both), n, n), np.float32),
        "t": np.zeros((2, n), np.bool_),
    }
    parameters = f"x: f32[N], y: f32[{len(functions)}, N], z: f32[{len(both)}, N, N], t: bool[2, N]"
    kernel = kernel_of(body, parameters, "N")
    expected = {k: v.copy() for k, v in arrays.items()}
    interpret(kernel, expected, {"N": n})
    got = outputs(compiled((kernel,), isa), kernel, arrays, {"N": n}, ["y", "z", "t"])
    for name in ("y", "z", "t"):
        np.testing.assert_array_equal(got[name], expected[name])
    signed = ~np.isnan(expected["y"])
    assert np.array_equal(np.signbit(got["y"])[signed], np.signbit(expected["y"])[signed])


@ISAS
def test_division_of_a_row_by_one_number_rounds_as_division_does(isa: Isa) -> None:
    """The kernel multiplies by the reciprocal where that is exact enough; only numbers near zero may differ
    by one unit.
    """
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 3000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    wide = (rng.standard_normal(3000) * np.exp2(rng.uniform(-20, 20, 3000))).astype(np.float32)
    x = np.concatenate([SPECIAL, -SPECIAL, bits, wide])
    near_two = np.nextafter(np.float32(2), np.float32(0))
    plain = rng.standard_normal(40).astype(np.float32)
    c = np.concatenate([SPECIAL, np.array([near_two, 1, 3, 7, 1e-20, 1e20, 1e-35, 1e35], np.float32), plain])
    kernel = kernel_of(
        "parallel r < M { vector i < N { y[r, i] = x[i] / c[r] } }", "x: f32[N], c: f32[M], y: f32[M, N]"
    )
    sizes = {"M": len(c), "N": len(x)}
    arrays = {"x": x, "c": c, "y": np.zeros((len(c), len(x)), np.float32)}
    got = outputs(compiled((kernel,), isa), kernel, arrays, sizes, ["y"])["y"]
    with np.errstate(all="ignore"):
        exact = x[None, :] / c[:, None]
    known = ~np.isnan(exact)
    near_zero = known & ((np.abs(exact) < np.finfo(np.float32).tiny) | (np.abs(x) < 2.0**-100))
    np.testing.assert_array_equal(got[~near_zero], exact[~near_zero])
    np.testing.assert_array_max_ulp(got[near_zero], exact[near_zero], 1)
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(exact[known]))


@ISAS
def test_division_by_a_sum_rounds_as_division_does(isa: Isa) -> None:
    """The floats are between 0 and their sum; those below 2^-100 may differ by one unit."""
    rng = np.random.default_rng(0)
    tiny = np.array([0.0, np.nan, 1e-45, 1e-39, 1e-37], np.float32)
    parts = np.concatenate([tiny, rng.random(2000), np.exp(rng.uniform(-80, 0, 2000))]).astype(np.float32)
    near_two = np.nextafter(np.float32(2), np.float32(0))
    c = np.array([1, near_two, 2, 3, 7, *np.exp(rng.uniform(0, 30, 40)), np.nan], np.float32)
    kernel = kernel_of(
        "parallel r < M { vector i < N { y[r, i] = div_by_sum(x[i], c[r]) } }",
        "x: f32[N], c: f32[M], y: f32[M, N]",
    )
    sizes = {"M": len(c), "N": len(parts)}
    arrays = {"x": parts, "c": c, "y": np.zeros((len(c), len(parts)), np.float32)}
    got = outputs(compiled((kernel,), isa), kernel, arrays, sizes, ["y"])["y"]
    exact = parts[None, :] / c[:, None]
    plain = ~(np.abs(exact) < 2.0**-100)
    np.testing.assert_array_equal(got[plain], exact[plain])
    np.testing.assert_array_max_ulp(got[~plain], exact[~plain], 1)


@ISAS
def test_unrolled_steps_may_overwrite_their_operand(isa: Isa) -> None:
    """Stores of unrolled steps follow all of their loads; the result may overwrite the operand."""
    kernel = kernel_of("vector i < N { y[i] = exp(x[i]) }", "x: f32[N], y: f32[N]", "N")
    library = compiled((kernel,), isa)
    for n in (1, 15, 16, 31, 32, 33, 64, 100):
        x = np.linspace(-3, 3, n, dtype=np.float32)
        apart = outputs(library, kernel, {"x": x, "y": np.zeros_like(x)}, {"N": n}, ["y"])["y"]
        buf = (ctypes.c_void_p * 2)(x.ctypes.data, x.ctypes.data)
        assert (
            library[kernel.name](buf, (ctypes.c_int64 * 1)(n), ctypes.c_int64(0), ctypes.c_int64(1), None)
            == 0
        )
        assert x.tobytes() == apart.tobytes()


@ISAS
def test_sizes_known_to_be_whole_vectors_have_no_tail(isa: Isa) -> None:
    body = "parallel o < 1 {{ t: f32[] register = 0 vector i < {0} {{ y[i] = exp(x[i]) }} "
    body += "vector i < {0} {{ t[] add= y[i] }} s[o] = t[] }}"  # an exponential, and its sum
    for extent, tails in (("16*N", 0), ("48*M*N", 0), ("16*N + 1", 2), ("N", 2)):
        parameters = f"x: f32[{extent}], y: f32[{extent}], s: f32[1]"
        kernel = kernel_of(body.format(extent), parameters, "M, N")
        assert emit_file([(kernel, "")], isa).count(" = first_") == tails, extent
    for m, n in ((1, 1), (2, 3), (3, 0)):
        kernel = kernel_of(body.format("48*M*N"), "x: f32[48*M*N], y: f32[48*M*N], s: f32[1]", "M, N")
        x = np.linspace(-3, 3, 48 * m * n, dtype=np.float32)
        arrays = {"x": x, "y": np.zeros_like(x), "s": np.zeros(1, np.float32)}
        found = outputs(compiled((kernel,), isa), kernel, arrays, {"M": m, "N": n}, ["y", "s"])
        np.testing.assert_allclose(found["y"], np.exp(x), rtol=1e-6)
        np.testing.assert_allclose(found["s"], np.exp(x).sum(), rtol=1e-5)


@ISAS
def test_accumulating_where_lanes_meet(isa: Isa) -> None:
    """The kernels are a histogram, a strided and a dense read-modify-write, and a reduction for each inner
    axis.
    """
    body = """serial once < 1 {
        vector i < N { count[jds[i] where @i < @(N - 1)] add= x[i] }
        vector i < N { dense[i] max= x[i] }
        vector i < N { wide[2*i] add= x[i] }
        vector i < N { serial k < 3 { kept[k] add= x[i] * f32(@k) } }
    }"""
    parameters = "x: f32[N], jds: i32[N], count: f32[N], dense: f32[N], wide: f32[2*N], kept: f32[3]"
    kernel = kernel_of(body, parameters, "N")
    for n in (1, 45):
        rng = np.random.default_rng(2)
        arrays = {
            "x": rng.standard_normal(n).astype(np.float32),
            "jds": rng.integers(0, n, n).astype(np.int32),
            **{k: np.zeros(n, np.float32) for k in ("count", "dense")},
            "wide": np.zeros(2 * n, np.float32),
            "kept": np.zeros(3, np.float32),
        }
        compare(kernel, arrays, {"N": n}, isa, 1e-5)


@ISAS
def test_hook_stores_a_tile(isa: Isa) -> None:
    text = """kernel hook(tile: f32[rows, cols] strides(ld, 1) cache, bias: f32[C], out: f32[B, R, C])
      sizes(batch, row0, rows, col0, cols, ld, B, R, C) {
      serial r < rows {
        vector c < cols { out[batch, row0 + r, col0 + c] = max(tile[r, c] + bias[col0 + c], 0.0) }
      }
    }"""
    kernel = parse_kernel(text)
    library = load(compile_shared(emit_file([(kernel, "a hook")], isa), isa, toolchain()))
    rng = np.random.default_rng(3)
    tile = rng.standard_normal((5, 40)).astype(np.float32)
    bias, out = rng.standard_normal(30).astype(np.float32), np.zeros((2, 9, 30), np.float32)
    bias, out = guarded(bias), guarded(out)
    buf = (ctypes.c_void_p * 2)(bias.ctypes.data, out.ctypes.data)
    arg = (ctypes.c_int64 * 3)(2, 9, 30)
    numbers = [ctypes.c_int64(v) for v in (40, 1, 4, 5, 11, 19)]
    assert library.hook(buf, arg, ctypes.c_void_p(tile.ctypes.data), *numbers) == 0
    expected = np.zeros((2, 9, 30), np.float32)
    expected[1, 4:9, 11:30] = np.maximum(tile[:, :19] + bias[11:30], 0)
    np.testing.assert_array_equal(out, expected)


@ISAS
@pytest.mark.parametrize("count", range(1, 10))
def test_hook_interleaves_any_number_of_rows(isa: Isa, count: int) -> None:
    text = """kernel hook(tile: f32[rows, cols] strides(ld, 1) cache, out: f32[R, C])
      sizes(batch, row0, rows, col0, cols, ld, R, C) {
      vector c < cols {
        serial r < rows { out[row0 + r, col0 + c] = tanh(tile[r, c]) }
      }
    }"""
    kernel = parse_kernel(text)
    library = load(compile_shared(emit_file([(kernel, "a hook")], isa), isa, toolchain()))
    tile = np.random.default_rng(3).standard_normal((count, 40)).astype(np.float32)
    out = guarded(np.zeros((count + 2, 40), np.float32))
    buf, arg = (ctypes.c_void_p * 1)(out.ctypes.data), (ctypes.c_int64 * 2)(count + 2, 40)
    numbers = [ctypes.c_int64(v) for v in (40, 0, 1, count, 3, 37)]
    assert library.hook(buf, arg, ctypes.c_void_p(tile.ctypes.data), *numbers) == 0
    expected = np.zeros((count + 2, 40))
    expected[1:-1, 3:] = np.tanh(tile[:, :37].astype(np.float64))
    np.testing.assert_allclose(out, expected, rtol=3e-7)


HOSTILE = ("*/ int x; /*", "a\\\nb", "/* nested", "\u202e*/", "??/", 'quote " and %s', "end *\\\n/")


@ISAS
def test_hostile_comments_stay_comments(isa: Isa) -> None:
    kernel = kernel_of("vector i < N { x[i] = 1.0 }", "x: f32[N]", "N")
    text = emit_file([(replace(kernel, name=f"k{i}"), comment) for i, comment in enumerate(HOSTILE)], isa)
    assert text.isascii()
    library = load(compile_shared(text, isa, toolchain()))
    assert all(library[f"k{i}"] for i in range(len(HOSTILE)))


@ISAS
def test_names_that_are_keywords_of_c(isa: Isa) -> None:
    body = "vector exp < double { i_ = int[exp] + 1.0 long[exp] = exp_f32x16[exp] * i_ }"
    kernel = kernel_of(body, "int: f32[double], exp_f32x16: f32[double], long: f32[double]", "double")
    arrays = {n: np.arange(20, dtype=np.float32) for n in ("int", "exp_f32x16", "long")}
    compare(kernel, arrays, {"double": 20}, isa, 0)


def test_grid_and_scratch() -> None:
    cases = {c.name: parse_kernel(c.text) for c in CASES}
    assert str(grid_of(cases["softmax"])) == "R"
    assert str(scratch_of(cases["softmax"])) == "64*floordiv(C + 15, 16)"
    assert str(grid_of(cases["gelu"])) == "floordiv(N + 4095, 4096)"
    assert str(grid_of(cases["swiglu"])) == "floordiv(N + 63, 64)*floordiv(R + 11, 12)"
    assert [p.name for p in phases(cases["split_sum"])] == ["split_sum_0", "split_sum_1"]
    total = kernel_of("vector i < N { s[0] add= x[i] }", "x: f32[N], s: f32[1]", "N")
    assert grid_of(total) == 1  # one total cannot be cut into independent units


def test_the_main_checks_and_times_each_kernel(tmp_path: Path) -> None:
    kernels = [parse_kernel(c.text) for c in CASES if c.name in ("softmax", "gelu", "transpose")]
    isa = RUNNABLE[0]
    source = tmp_path / "kernels.c"
    source.write_text(emit_file([(k, "alone") for k in kernels], isa))
    found = toolchain()
    code = [f for f in found.flags(isa) if f not in LINK_FLAGS]
    program = tmp_path / "program"
    command = [
        *found.command,
        *code,
        "-Wall",
        "-Wextra",
        "-Werror",
        "-DGRAPHWRIGHT_MAIN",
        "-o",
        str(program),
        str(source),
        "-lm",
    ]
    subprocess.run(command, check=True)
    ended = subprocess.run([str(program), "33", "50"], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stdout
    assert "softmax: " in ended.stdout and "GB/s" in ended.stdout
