"""Loop distribution: the functions that get a loop of their own, and results compared with NumPy."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from graphwright.ir.loops.nodes import Loop
from graphwright.ir.loops.text import parse_kernel
from graphwright.targets.cpu.c.distribution import BLOCK, DistributedLoop, distributed
from graphwright.targets.cpu.emit import emit
from graphwright.targets.cpu.isa import ISAS, Isa
from tests.kernels.library.harness import RUNNABLE
from tests.targets.cpu.generated import compiled, outputs, run

MISH = """
kernel mish(x: f32[n], y: f32[n], z: f32[n]) sizes(n) {
  vector v < n {
    half = 0.5 * x[v]
    plus = log(1.0 + exp(half))
    z[v] = plus
    t = tanh(plus)
    y[v] = half * t
  }
}
"""
SWAPPED = """
kernel swapped(x: f32[n], y: f32[n]) sizes(n) {
  vector v < n {
    y[v - v % 2 + (v + 1) % 2] = tanh(exp(x[v]))
  }
}
"""
SIZES = (0, 1, 15, 16, 17, 16 * BLOCK - 1, 16 * BLOCK, 16 * BLOCK + 1, 16 * BLOCK + 47, 5003)


def parts_of(body: str, dtype: str = "f32") -> tuple[DistributedLoop, ...]:
    kernel = parse_kernel(
        f"kernel k(x: {dtype}[n], r: {dtype}[n], y: {dtype}[n]) sizes(n) {{ vector v < n {{\n{body}\n}} }}"
    )
    (loop,) = kernel.body
    assert isinstance(loop, Loop)
    return distributed(loop.body)


def test_each_function_of_a_chain_has_a_loop() -> None:
    (loop,) = parse_kernel(MISH).body
    assert isinstance(loop, Loop)
    exponential, logarithm, last = distributed(loop.body)
    assert (exponential.reads, logarithm.reads, last.reads) == ((), exponential.keeps, ("plus",))
    assert (len(exponential.keeps), logarithm.keeps, last.keeps) == (1, ("plus",), ())
    names = [
        [getattr(s, "name", "store") for s in part.statements] for part in (exponential, logarithm, last)
    ]
    assert names[0][0] == "half"  # computed again in the last loop, not kept
    assert names[1][-1] == "plus"
    assert sorted(names[2]) == ["half", "store", "store", "t"]


@pytest.mark.parametrize(
    "body",
    [
        "y[v] = exp(x[v])",
        "y[v] = sin(x[v]) * r[v] + cos(x[v])",
        "y[v] = sqrt(exp(x[v]) / r[v])",
        "t = x[v] + r[v]\ny[v] = t * tanh(t)",
        "y[v] = tanh(exp(y[v]))",  # what is stored is loaded
    ],
)
def test_functions_side_by_side_stay_in_one_loop(body: str) -> None:
    assert parts_of(body) == ()


def test_chains_of_f64_stay_in_one_loop() -> None:
    assert parts_of("y[v] = tanh(log(x[v]))", "f64") == ()


@pytest.mark.parametrize("isa", RUNNABLE, ids=lambda isa: isa.name)
@pytest.mark.parametrize("n", SIZES)
def test_results_at_sizes_around_a_block(isa: Isa, n: int) -> None:
    kernel = parse_kernel(MISH)
    library = compiled((kernel,), isa)
    x = np.random.default_rng(n).uniform(-30, 30, n).astype(np.float32)
    arrays = {"x": x, "y": np.zeros_like(x), "z": np.zeros_like(x)}
    plus = np.log1p(np.exp(0.5 * x.astype(np.float64)))
    made = outputs(library, kernel, arrays, {"n": n}, ["y", "z"])
    np.testing.assert_allclose(made["z"], plus, rtol=1e-5, atol=2e-7)
    np.testing.assert_allclose(made["y"], 0.5 * x.astype(np.float64) * np.tanh(plus), rtol=1e-5, atol=4e-6)
    for pieces in (2, 3):
        again = outputs(library, kernel, arrays, {"n": n}, ["y", "z"], pieces)
        assert all(again[name].tobytes() == made[name].tobytes() for name in made)


@pytest.mark.parametrize("isa", RUNNABLE, ids=lambda isa: isa.name)
def test_a_result_may_overwrite_its_operand(isa: Isa) -> None:
    kernel, n = parse_kernel(MISH), 3001
    library = compiled((kernel,), isa)
    x = np.random.default_rng(0).uniform(-5, 5, n).astype(np.float32)
    apart = {"x": x.copy(), "y": np.zeros_like(x), "z": np.zeros_like(x)}
    run(library, kernel, apart, {"n": n})
    operand, other = x.copy(), np.zeros_like(x)
    pointers = (ctypes.c_void_p * 3)(*(a.ctypes.data for a in (operand, operand, other)))
    assert library["mish"](pointers, (ctypes.c_int64 * 1)(n), ctypes.c_int64(0), ctypes.c_int64(1), None) == 0
    assert operand.tobytes() == apart["y"].tobytes()
    assert other.tobytes() == apart["z"].tobytes()


@pytest.mark.parametrize("isa", RUNNABLE, ids=lambda isa: isa.name)
def test_results_may_be_stored_anywhere(isa: Isa) -> None:
    """Neighbors change places, and so each lane has an offset of its own."""
    kernel, n = parse_kernel(SWAPPED), 32 * BLOCK + 70
    x = np.random.default_rng(0).uniform(-5, 5, n).astype(np.float32)
    made = outputs(compiled((kernel,), isa), kernel, {"x": x, "y": np.zeros_like(x)}, {"n": n}, ["y"])
    wanted = np.tanh(np.exp(x.astype(np.float64))).reshape(-1, 2)[:, ::-1].ravel()
    np.testing.assert_allclose(made["y"], wanted, rtol=1e-5, atol=4e-6)


def test_specials_pass_through_a_chain() -> None:
    kernel = parse_kernel(MISH)
    x = np.float32([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 200.0, -200.0] * 8)
    arrays = {"x": x, "y": np.zeros_like(x), "z": np.zeros_like(x)}
    run(compiled((kernel,), RUNNABLE[0]), kernel, arrays, {"n": len(x)})
    np.testing.assert_array_equal(np.isnan(arrays["y"]), np.isnan(x) | (x == -np.inf))  # inf * tanh(0)
    np.testing.assert_allclose(
        arrays["z"][:8], [np.nan, np.inf, 0, np.log(2), np.log(2), np.log(2), np.inf, 0]
    )


@pytest.mark.parametrize("isa", ISAS.values(), ids=lambda isa: isa.name)
def test_the_text_has_a_loop_for_each_function(isa: Isa) -> None:
    lanes = isa.vector_bytes // 4
    text = emit(parse_kernel(MISH), isa)
    body = text[text.rindex("int32_t mish(") :].split("mish_extent")[0]
    unrolled = body.count(f"tanh_f32x{lanes}(")
    assert body.count(f"log_f32x{lanes}(") == unrolled
    assert f"[{BLOCK}];" in body
