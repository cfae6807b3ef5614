"""Names of kernels: the ops that they compute; for decomposed ops, the original op."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import graphwright as gw
from graphwright.autofusion.autofuse import autofuse
from graphwright.export.onnx import fused_functions
from graphwright.fusion.outline import outline
from graphwright.fusion.region_names import NameRegions
from graphwright.ir.build import new_main_graph
from graphwright.ir.builtin.fused import region_of
from graphwright.ir.graph import Module
from graphwright.ir.types import F32, TensorType
from graphwright.kernel_sources import kernel_sources
from graphwright.ops.core.exp import Exp
from graphwright.ops.core.unary import Tanh
from graphwright.passes.base import Record
from graphwright.runtime.model import Model

HEAD = """<ir_version: 8, opset_import: ["" : 23]>
g (float[n, 24] x, float[24] s, float[24] t, float[24, 24] w) """


def compiled(body: str, **options: str) -> Model:
    return gw.compile(onnx.parser.parse_model(HEAD + body), options=gw.CompileOptions(isa="v3", **options))  # type: ignore[arg-type]


def kernels(model: Model) -> list[str]:
    """The generated ones, without their numbers."""
    files = [name.removesuffix(".c") for name in kernel_sources(model.package) if name.endswith(".c")]
    return [name.rpartition("_")[0] for name in files]


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("=> (y) { y = Softmax (x) }", "softmax"),
        ("=> (y) { a = Softmax (x) y = Mul (a, x) }", "softmax_mul"),
        ("=> (y) { a = LayerNormalization (x, s, t) y = Gelu (a) }", "layernorm_gelu"),
        ("=> (y) { a = RMSNormalization (x, s) y = Mul (a, x) }", "rmsnorm_mul"),
        ("=> (y) { a = Add (x, t) y = LogSoftmax (a) }", "add_logsoftmax"),
        (
            "=> (y) { a = Softmax (x) b = Tanh (a) y = LayerNormalization (b, s, t) }",
            "softmax_tanh_layernorm",
        ),
        ("=> (y) { a = MatMul (x, w) b = Add (a, t) y = Gelu (b) }", "linear_gelu_hook"),
        ("=> (y) { a = MatMul (x, w) b = Add (a, x) y = Gelu (b) }", "matmul_add_gelu_hook"),
    ],
)
def test_a_kernel_that_holds_all_of_an_op_is_named_for_it(body: str, name: str) -> None:
    assert kernels(compiled(body)) == [name]


def test_a_kernel_that_holds_a_part_of_an_op_is_named_for_the_part() -> None:
    names = kernels(compiled("=> (y) { y = Softmax (x) }", fusion_rules="-row"))
    assert len(names) > 1
    assert not any("softmax" in name for name in names)


def test_kernels_of_a_package_that_is_compiled_again_keep_their_names(tmp_path: Path) -> None:
    compiled("=> (y) { a = LayerNormalization (x, s, t) y = Gelu (a) }").save(tmp_path / "m.om")
    again = gw.load(tmp_path / "m.om", trust=False, options=gw.CompileOptions(isa="v3"))
    assert kernels(again) == ["layernorm_gelu"]


def test_functions_and_kernels_have_one_name() -> None:
    body = "=> (y) { a = LayerNormalization (x, s, t) y = Gelu (a) }"
    functions = fused_functions(autofuse(onnx.parser.parse_model(HEAD + body)).model.proto)
    assert [each.name for each in functions] == ["layernorm_gelu_1"]


def test_a_region_keeps_the_name_that_it_has() -> None:
    module = Module()
    b, (x,) = new_main_graph(module, [("x", TensorType(F32, (8,)))])
    b.graph.set_outputs([b(Exp(), b(Tanh(), x))])
    region = region_of(outline(b.graph, list(b.graph)))
    NameRegions().run(module, Record(""))
    assert region.name == "tanh_exp"
    region.name = "mine"
    NameRegions().run(module, Record(""))
    assert region.name == "mine"
