"""Views whose sizes are the elements of an operand."""

from __future__ import annotations

from graphwright import ops
from graphwright.ir.text import parse_module
from graphwright.passes.canonicalize_reshapes import CANONICALIZE_RESHAPES
from graphwright.passes.manager import run_passes

COMPUTED = """
module {
  symbol a
  symbol b
  constraint 32 == a*b at "n"
  graph main(%x: f32[4, 8], %sizes: i64[2], %more: i64[3]) {
    %r = Reshape(%x, %sizes): f32[a, b]
    %y = Unsqueeze[axes=(1,)](%r): f32[a, 1, b]
    %t = Reshape(%x, %more): f32[a, 1, b]
    %z = Squeeze[axes=(1,)](%t): f32[a, b]
    %u = Reshape[shape=(32,)](%r): f32[32]
    return %y, %z, %u
  }
}
"""


def test_a_view_that_determines_sizes_of_the_result_stays() -> None:
    """Only its output shows the sizes a and b; a Reshape of x to them could not know them."""
    ops.load()
    module = parse_module(COMPUTED)
    run_passes(module, CANONICALIZE_RESHAPES)
    y, z, u = (value.producer for value in module.main.outputs)
    assert y is not None and z is not None and u is not None
    assert (y.operand(0).name, z.operand(0).name, u.operand(0).name) == ("r", "t", "x")
