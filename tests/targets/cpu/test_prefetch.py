"""Prefetches of rows in generated kernels: the rows, the pass that prefetches them, and results compared with
NumPy.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from graphwright.ir.loops.text import parse_kernel
from graphwright.targets.cpu.emit import emit
from graphwright.targets.cpu.isa import ISAS, Isa
from tests.kernels.library.harness import RUNNABLE
from tests.targets.cpu.generated import compiled, run

SOFTMAX = """
kernel softmax(x: f32[4, 6, 1200], m: f32[6, 1200], g: f32[1200], y: f32[4, 6, 1200]) sizes() {
  parallel b < 4 {
    parallel i < 6 {
      most: f32[] register = -inf
      vector r < 1200 {
        most[] max= x[b, i, r] + m[i, r]
      }
      top = most[]
      total: f32[] register = 0
      vector s < 1200 {
        e = exp(x[b, i, s] + m[i, s] - top)
        y[b, i, s] = e
        total[] add= e
      }
      sum = total[]
      vector t < 1200 {
        y[b, i, t] = y[b, i, t] / sum * g[t]
      }
    }
  }
}
"""
V3 = next(isa for isa in ISAS.values() if isa.name == "v3")


def asked_for(text: str) -> list[tuple[str, int]]:
    """Addresses in the body of the unrolled loop, and whether they are to be written."""
    found = re.findall(r"__builtin_prefetch\(([^,]+), ([01])\);", emit(parse_kernel(text), V3))
    return list(dict.fromkeys((address, int(written)) for address, written in found))


def test_the_pass_with_a_costly_function_prefetches_the_next_row() -> None:
    assert sorted(asked_for(SOFTMAX)) == [
        ("m + 1200 * i + s + 1200", 0),
        ("x + 7200 * b + 1200 * i + s + 1200", 0),
        ("y + 7200 * b + 1200 * i + s + 1200", 1),
    ]


def test_erf_hides_prefetches_of_short_rows() -> None:
    assert len(asked_for(SOFTMAX.replace("exp(", "erf(").replace("1200", "1024"))) == 3


def test_each_cache_line_is_prefetched_once() -> None:
    """A cache line has sixteen f32, which are two vectors: each step of two vectors prefetches once."""
    text = emit(parse_kernel(SOFTMAX), V3)
    loop = re.search(r"for \(; s \+ 16 <= 1200; s \+= 16\) \{(.*?)\n {16}\}", text, re.DOTALL)
    assert loop is not None and loop[1].count("__builtin_prefetch(x ") == 1


@pytest.mark.parametrize(
    "text",
    [
        SOFTMAX.replace("exp(x[b, i, s] + m[i, s] - top)", "x[b, i, s] + m[i, s] - top"),
        "kernel k(x: f32[4, 1200], y: f32[4, 1200]) sizes() {\n"
        "  parallel i < 4 {\n    vector r < 1200 {\n      y[i, r] = exp(x[i, r])\n    }\n  }\n}",
        SOFTMAX.replace("1200", "1024"),
    ],
    ids=["cheap passes", "one pass", "short rows"],
)
def test_nothing_is_asked_for(text: str) -> None:
    assert asked_for(text) == []


def test_values_read_by_columns_are_not_prefetched() -> None:
    """Elements that are adjacent along the pass are not adjacent in memory."""
    turned = SOFTMAX.replace("x: f32[4, 6, 1200]", "x: f32[4, 1200, 6]")
    turned = turned.replace("x[b, i, r]", "x[b, r, i]").replace("x[b, i, s]", "x[b, s, i]")
    assert [address.split()[0] for address, _ in asked_for(turned)] == ["m", "y"]


@pytest.mark.parametrize("isa", RUNNABLE, ids=lambda isa: isa.name)
def test_kernels_with_prefetches_equal_numpy(isa: Isa) -> None:
    """Operands end at unreadable pages: rows after them are prefetched, but not read."""
    rng = np.random.default_rng(0)
    x, m = rng.standard_normal((4, 6, 1200), np.float32), rng.standard_normal((6, 1200), np.float32)
    g = rng.standard_normal(1200).astype(np.float32)
    kernel, y = parse_kernel(SOFTMAX), np.zeros_like(x)
    run(compiled((kernel,), isa), kernel, {"x": x, "m": m, "g": g, "y": y}, {}, pieces=3)
    e = np.exp((x + m - (x + m).max(-1, keepdims=True)).astype(np.float64))
    np.testing.assert_allclose(y, e / e.sum(-1, keepdims=True) * g, rtol=2e-6, atol=1e-7)
