"""What sizes that are not known count as, where the cost of a layout is weighed."""

from __future__ import annotations

from graphwright.ir.symbols import floordiv, maximum, symbol
from graphwright.layout.forms import nominal


def test_a_size_that_is_not_known_counts_as_a_batch_or_a_small_image() -> None:
    n, h = symbol("n"), symbol("h")
    assert [nominal(7), nominal(n), nominal(n * 3), nominal(n * h)] == [7, 64, 192, 4096]


def test_what_would_be_nothing_at_that_size_is_guessed_larger() -> None:
    frames = maximum(0, floordiv(symbol("samples") + 64, 128) - 1)
    assert nominal(frames) == 1
    assert nominal(frames * symbol("batch")) == 256
    assert nominal(maximum(0, symbol("n") - 10_000)) == 16384 - 10_000
    assert nominal(0) == 0
