"""What compiling does to the process around it."""

from __future__ import annotations

import gc

import pytest

import graphwright as gw
from graphwright.ops.core.unary import Relu


def _relu() -> gw.GraphBuilder:
    builder = gw.GraphBuilder()
    builder.output("y", builder(Relu(), builder.input("x", "f32", (2, 3))))
    return builder


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_is_collected_again_if_it_was_before(enabled: bool) -> None:
    before, seen = gc.isenabled(), []
    (gc.enable if enabled else gc.disable)()
    try:
        gw.compile(_relu().build(), observe=lambda name, product: seen.append(gc.isenabled()))
        assert seen and not any(seen)
        assert gc.isenabled() is enabled
        with pytest.raises(gw.ModelError):
            gw.compile("no such file")
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()
