"""ONNX Runtime's activations: Gelu, BiasGelu, FastGelu and QuickGelu."""

from __future__ import annotations

from graphwright.ir.op import Import, Importer, Op
from graphwright.ops.contrib.common import added, contribute
from graphwright.ops.nn.activations import Gelu, Swish


def _of_sum(activation: Op) -> Import:
    """``activation`` of the first input plus, where there is one, the second."""
    return lambda i: i.emit(activation, added(i, i.input(0), i.optional(1)))


def _import_quick(i: Importer) -> object:
    return i.emit(Swish(float(i.attr("alpha", 1.702))), i.input(0))


contribute(Gelu, Gelu=_of_sum(Gelu()), BiasGelu=_of_sum(Gelu()), FastGelu=_of_sum(Gelu("tanh")))
contribute(Swish, QuickGelu=_import_quick)
