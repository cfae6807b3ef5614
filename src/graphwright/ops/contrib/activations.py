"""Import of ONNX Runtime's activations Gelu, BiasGelu, FastGelu and QuickGelu."""

from __future__ import annotations

from graphwright.ir.op import Import, Importer, Op
from graphwright.ops.contrib.registration import register_contrib
from graphwright.ops.core.binary import added
from graphwright.ops.nn.activations import Gelu, Swish


def _with_bias(activation: Op) -> Import:
    """Imports as ``activation`` of the sum of input 0 and the optional input 1."""
    return lambda i: i.emit(activation, added(i, i.input(0), i.optional(1)))


def _import_quick(i: Importer) -> object:
    return i.emit(Swish(float(i.attr("alpha", 1.702))), i.input(0))


register_contrib(
    Gelu, Gelu=_with_bias(Gelu()), BiasGelu=_with_bias(Gelu()), FastGelu=_with_bias(Gelu("tanh"))
)
register_contrib(Swish, QuickGelu=_import_quick)
