"""ScatterND that assigns a slice, as PyTorch exports it, against NumPy."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.ir.build import new_main_graph
from graphwright.ir.evaluate import evaluate_module
from graphwright.ir.graph import Module
from graphwright.ir.types import F32, tensor
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.scatter_nd import ScatterND
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.passes.canonicalize_scatters import CANONICALIZE_SCATTERS, LEAST_SHARE
from graphwright.passes.manager import run_passes


@settings(deadline=None)
@given(st.data())
def test_assigned_slices_are_those_of_numpy(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    depth = data.draw(st.integers(1, len(sizes)))
    starts = [data.draw(st.integers(0, size - 1)) for size in sizes[:depth]]
    counts = [data.draw(st.integers(1, size - first)) for size, first in zip(sizes, starts, strict=False)]
    positions = [first + np.arange(count) for first, count in zip(starts, counts, strict=True)]
    if data.draw(st.booleans()):
        positions[-1] = positions[-1] - sizes[depth - 1]  # counted from the end
    module, updated = Module(), (*counts, *sizes[depth:])
    b, (x, y) = new_main_graph(module, [("x", tensor(F32, *sizes)), ("y", tensor(F32, *updated))])
    if data.draw(st.booleans()):
        columns = [
            b(Unsqueeze((-1,)), b(Expand(tuple(counts)), b.const(each.reshape(-1, *(1,) * (depth - 1 - k)))))
            for k, each in enumerate(positions)
        ]
        indices = b(Concat(-1), *columns)
    else:
        indices = b.const(np.stack(np.meshgrid(*positions, indexing="ij"), -1))
    module.main.set_outputs([b(ScatterND(), x, indices, y)])

    run_passes(module, CANONICALIZE_SCATTERS)
    rng = np.random.default_rng(0)
    old, new = (rng.normal(size=shape).astype(np.float32) for shape in (sizes, updated))
    (got,) = evaluate_module(module, [old, new])
    want = old.copy()
    want[tuple(slice(first, first + count) for first, count in zip(starts, counts, strict=True))] = new
    np.testing.assert_array_equal(got, want)
    is_left = any(isinstance(node.op, ScatterND) for node in module.main)
    assert is_left == (new.size * LEAST_SHARE < old.size)
