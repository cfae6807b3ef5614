"""Every argument of every operator that has an import function is read, or refused where it matters.

Arguments without a default must be read. Others may be left: a call in which one differs is refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from operator import getitem
from typing import Any, ClassVar

import pytest
import torch
from torch import fx
from torch._subclasses import FakeTensorMode
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_unflatten

from graphwright.frontends.torch import nodes
from graphwright.frontends.torch.call import MEMORY_ARGUMENTS, Call
from graphwright.frontends.torch.catalog import import_functions
from graphwright.frontends.torch.graph import read_graph
from graphwright.frontends.torch.types import Unsupported
from tests.frontends.torch.support import parts_of, reading, samples_of

aten, decomposed = torch.ops.aten, torch.ops.quantized_decomposed
X, ROWS, COUNTS = torch.randn(3, 5), torch.randn(2, 4, 6), torch.arange(15).reshape(3, 5)
IMAGE, CUBE = torch.randn(2, 4, 6, 6), torch.randn(2, 4, 5, 5, 5)
HEADS, HALVES = torch.randn(2, 4, 8, 16), torch.randn(8, 8, dtype=torch.bfloat16)
WEIGHTS, PER_CHANNEL = torch.randn(8, 4, 3, 3), torch.rand(4)
STEPS = [1, 1], [0, 0], [1, 1], False, [0, 0], 1
"""Of a convolution: strides, pads, dilations, whether it is transposed, its output padding and groups."""
ONE, ZERO = torch.ones(1), torch.zeros(1, dtype=torch.int64)
BYTES = torch.ones(32, 32, dtype=torch.int8)
STATE = torch.randn(1, 4, 5)
GATES = {count: (torch.randn(count * 5, 6), torch.randn(count * 5, 5)) for count in (1, 3, 4)}
"""Weights of recurrent cells of 5 elements for inputs of 6."""
KINDS = [f"{shifted}chebyshev_polynomial_{kind}" for shifted in ("", "shifted_") for kind in "tuvw"]
CALLS: tuple[tuple[Any, tuple[Any, ...]], ...] = (
    *(
        (getattr(aten, name).Scalar, (X, 2))
        for name in ("add", "sub", "rsub", "mul", "div", "fmod", "remainder")
    ),
    *((getattr(aten, name).Scalar, (X, 2)) for name in ("eq", "ne", "lt", "le", "gt", "ge")),
    *(
        (getattr(aten, name).default, (X,))
        for name in ("alias", "detach", "_neg_view", "lift_fresh_copy", "elu", "silu", "mish")
    ),
    *((getattr(aten, name).default, (X,)) for name in ("hardsigmoid", "any", "all", "sum", "mean", "prod")),
    *((getattr(aten, name).dim, (X, 1)) for name in ("any", "all")),
    *((getattr(aten, name).default, (X,)) for name in ("linalg_qr", "_linalg_svd", "linalg_lu_factor_ex")),
    (aten._linalg_eigh.default, (torch.eye(3),)),
    *((getattr(aten, name).default, (X, 1, False)) for name in ("_softmax", "_log_softmax")),
    *(
        (getattr(aten, name).Scalar_Tensor, (2, COUNTS))
        for name in ("remainder", "bitwise_and", "bitwise_or", "bitwise_xor")
    ),
    *(
        (getattr(getattr(aten, f"bitwise_{side}_shift"), overload), arguments)
        for side in ("left", "right")
        for overload, arguments in (("Tensor_Scalar", (COUNTS, 2)), ("Scalar_Tensor", (2, COUNTS)))
    ),
    *(
        (getattr(getattr(aten, name), overload), (COUNTS, other))
        for name in ("__lshift__", "__rshift__")
        for overload, other in (("Tensor", COUNTS), ("Scalar", 2))
    ),
    (aten._int_mm.default, (BYTES, BYTES.T)),
    (aten.copysign.Tensor, (X, X)),
    (aten.copy.default, (X, X)),
    (aten.slice_scatter.default, (X, X[:2], 0, 1, 3, 1)),
    (aten.convolution.default, (IMAGE, WEIGHTS, None, [1], [0], [1], False, [0], 1)),
    (aten.convolution_backward.default, (torch.randn(2, 8, 4, 4), IMAGE, WEIGHTS, [8], *STEPS, 3 * [True])),
    (aten._grouped_mm.default, (HALVES, HALVES[None].mT.contiguous(), torch.tensor([8], dtype=torch.int32))),
    (torch.ops.transformers.grouped_mm_fallback.default, (X, X.T[None], ONE.to(torch.int32))),
    (aten.embedding.default, (X, COUNTS % 3)),
    (aten.gather.default, (X, 0, COUNTS % 3)),
    (aten._adaptive_avg_pool2d.default, (IMAGE, [2, 2])),
    (aten._adaptive_avg_pool3d.default, (CUBE, [2, 2, 2])),
    (aten.max_pool2d_with_indices.default, (IMAGE, [2, 2])),
    (aten.max_pool3d_with_indices.default, (CUBE, [2, 2, 2])),
    (aten.reflection_pad1d.default, (ROWS, [1, 2])),
    (aten.replication_pad1d.default, (ROWS, [1, 2])),
    (aten.replication_pad2d.default, (IMAGE, [1, 2, 0, 1])),
    (aten.pow.Tensor_Scalar, (X, 2)),
    (aten.pow.Scalar, (2, X)),
    (aten._unsafe_view.default, (X, [5, 3])),
    (aten.scatter.src, (X, 0, COUNTS % 3, X)),
    (aten.scatter.value, (X, 0, COUNTS % 3, 1.0)),
    (aten.scatter_add.default, (X, 0, COUNTS % 3, X)),
    (aten.scatter_reduce.two, (X, 0, COUNTS % 3, X, "sum")),
    (aten.index_put.default, (X, [COUNTS[0] % 3], X[:1])),
    (aten.squeeze.default, (X,)),
    (aten.topk.default, (X, 2)),
    (aten.sort.default, (X,)),
    (aten.index.Tensor, (X, [COUNTS[0] % 3])),
    (aten.arange.start_step, (1, 7, 2)),
    (aten.any.dims, (X, [1])),
    (aten.all.dims, (X, [1])),
    (aten.sort.stable, (X, {"stable": True})),
    (aten.transpose.int, (X, 0, 1)),
    (aten.bitwise_and.Scalar, (COUNTS, 3)),
    (aten.bitwise_or.Scalar, (COUNTS, 3)),
    (aten.bitwise_xor.Scalar, (COUNTS, 3)),
    (aten.avg_pool1d.default, (ROWS, [2])),
    (aten._native_batch_norm_legit_no_training.default, (IMAGE, *[PER_CHANNEL] * 4, 0.1, 1e-5)),
    (aten.native_group_norm.default, (IMAGE, PER_CHANNEL, PER_CHANNEL, 2, 4, 36, 2, 1e-5)),
    (aten._fused_rms_norm.default, (X, [5], torch.rand(5), 1e-5)),
    (aten.copysign.Scalar, (X, -1.0)),
    (torch.ops.prims.convert_element_type.default, (X, torch.int32)),
    (torch.ops.prims.fma.default, (X, X, X)),
    (aten.relu6.default, (X,)),
    (aten.div.Scalar_mode, (X, 3, {"rounding_mode": "floor"})),
    (aten.true_divide.Tensor, (X, X)),
    (aten.special_zeta.other_scalar, (X, 2)),
    (aten.special_zeta.self_scalar, (2, X)),
    (aten.reflection_pad2d.default, (IMAGE, [1, 2, 0, 1])),
    (aten.reflection_pad3d.default, (CUBE, [1, 2, 0, 1, 1, 1])),
    (aten.replication_pad3d.default, (CUBE, [1, 2, 0, 1, 1, 1])),
    (aten.reshape.default, (X, [5, 3])),
    (aten.upsample_nearest1d.vec, (ROWS, [12], None)),
    (aten.upsample_nearest2d.vec, (IMAGE, [12, 9], None)),
    (aten.upsample_nearest3d.vec, (CUBE, [10, 10, 10], None)),
    (aten.upsample_linear1d.vec, (ROWS, [12], False, None)),
    (aten.upsample_bilinear2d.vec, (IMAGE, [12, 9], True, None)),
    (aten.upsample_trilinear3d.vec, (CUBE, None, False, [2.0, 2.0, 2.0])),
    (aten.upsample_bicubic2d.vec, (IMAGE, [12, 9], False, None)),
    (aten._scaled_dot_product_flash_attention_for_cpu.default, (HEADS, HEADS, HEADS)),
    *((getattr(aten, f"special_{kind}").x_scalar, (0.5, X)) for kind in KINDS),
    *((getattr(aten, f"special_{kind}").n_scalar, (X, 3)) for kind in KINDS),
    (aten.lstm.input, (ROWS, [STATE, STATE], [*GATES[4]], False, 1, 0.0, False, False, False)),
    (aten.gru.input, (ROWS, STATE, [*GATES[3]], False, 1, 0.0, False, False, False)),
    (aten.rnn_tanh.input, (ROWS, STATE, [*GATES[1]], False, 1, 0.0, False, False, False)),
    (aten.rnn_relu.input, (ROWS, STATE, [*GATES[1]], False, 1, 0.0, False, False, False)),
    (aten._weight_int8pack_mm.default, (X, torch.zeros(4, 5, dtype=torch.int8), PER_CHANNEL)),
    (decomposed.quantize_per_tensor.default, (X, 0.5, 0, 0, 255, torch.uint8)),
    (decomposed.quantize_per_tensor.tensor, (X, ONE, ZERO, 0, 255, torch.uint8)),
    (decomposed.quantize_per_channel.default, (IMAGE, PER_CHANNEL, COUNTS[0, :4], 1, 0, 255, torch.uint8)),
    (decomposed.dequantize_per_tensor.default, (BYTES, 0.5, 0, -128, 127, torch.int8)),
    (decomposed.dequantize_per_tensor.tensor, (BYTES, ONE, ZERO, -128, 127, torch.int8)),
    (decomposed.dequantize_per_channel.default, (BYTES[:4], PER_CHANNEL, None, 0, -128, 127, torch.int8)),
    (aten.where.ScalarOther, (X > 0, X, 1.0)),
    (aten.where.ScalarSelf, (X > 0, 1.0, X)),
    (aten.where.Scalar, (X > 0, 1.0, 2.0)),
)
"""Operators with their arguments, named ones in a mapping at the end: overloads that no sample of PyTorch's
database reaches, since tracing makes others of them.
"""


class Recorded(Call):
    """Notes which arguments of which operators are read."""

    read: ClassVar[defaultdict[str, set[str]]] = defaultdict(set)

    def unread(self) -> Any:
        self.read[self.op_type] |= self._read
        return super().unread()


def graph_of(operator: Any, arguments: tuple[Any, ...]) -> fx.GraphModule:
    """A graph of one call: its tensors are the arguments, its first result is the result."""
    graph, mode = fx.Graph(), FakeTensorMode()
    named = arguments[-1] if isinstance(arguments[-1], dict) else {}
    leaves, spec = tree_flatten(arguments[:-1] if named else arguments)
    fakes = [mode.from_tensor(each) if isinstance(each, torch.Tensor) else each for each in leaves]
    given: list[Any] = list(fakes)
    for k, fake in enumerate(fakes):
        if isinstance(fake, torch.Tensor):
            given[k] = graph.placeholder(f"x{k}")
            given[k].meta["val"] = fake
    node = graph.call_function(operator, tuple(tree_unflatten(given, spec)), named)
    with mode:
        made = operator(*tree_unflatten(fakes, spec), **named)
    node.meta["val"] = made
    if isinstance(made, tuple | list):
        node = graph.call_function(getitem, (node, 0))
        node.meta["val"] = made[0]
    graph.output([node])
    return fx.GraphModule(torch.nn.Module(), graph)


def samples() -> Iterator[tuple[Callable[..., Any], list[torch.Tensor]]]:
    """A sample of each operator of the database that has an import function."""
    names = {name.removeprefix("prims.").partition(".")[0] for name in import_functions()}
    for info in op_db:
        if not names & {info.aten_name, f"_{info.aten_name}", info.name.replace(".", "_")}:
            continue
        dtype = torch.float32 if torch.float32 in info.dtypes else torch.int64
        given = samples_of(info, dtype)
        sample = given[len(given) // 2]
        leaves, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
        places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

        def call(
            *tensors: Any, info: Any = info, leaves: Any = leaves, places: Any = places, spec: Any = spec
        ) -> Any:
            filled = list(leaves)
            for k, tensor in zip(places, tensors, strict=True):
                filled[k] = tensor
            first, rest, named = tree_unflatten(filled, spec)
            return info.op(first, *rest, **named)

        yield call, [leaves[k] for k in places]


def operators() -> list[str]:
    """The operators with a schema, which excludes those whose arguments are graphs."""
    return [name for name in import_functions() if not name.startswith("higher_order.")]


def schema_of(name: str) -> tuple[str, Any]:
    """The full name of an operator, and its schema."""
    namespace, operator, overload = parts_of(name)
    packet = getattr(getattr(torch.ops, namespace), operator)
    return f"{namespace}.{operator}.{overload}", getattr(packet, overload)._schema


def test_no_argument_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """An import function that raises a Python error fails this test too."""
    monkeypatch.setattr(nodes, "Call", Recorded)
    monkeypatch.setattr(nodes, "_FAULTS_OF_IMPORTS", ())
    monkeypatch.setattr(nodes.NodeReader, "left_to_pytorch", {})  # as in exported models
    for operator, arguments in CALLS:
        module = graph_of(operator, arguments)
        assert not read_graph(module.graph, module).unsupported, operator
    rows = (partial(torch.unique, dim=0), [X])  # their number is data-dependent
    for call, tensors in (rows, *samples()):
        try:
            reading(call, *tensors)
        except (Unsupported, NotImplementedError):
            continue
    unread = {}
    for name in operators():
        full, schema = schema_of(name)
        own = {each.name for each in schema.arguments if not each.has_default_value()}
        if left := own - Recorded.read[full]:
            unread[full] = left
    assert not unread, "\n".join(map(str, unread.items()))


@pytest.mark.parametrize("name", operators())
def test_an_argument_that_is_not_read_is_rejected(name: str) -> None:
    """An import function may ignore an argument; if the argument differs from its default, the call is
    rejected.
    """
    full, schema = schema_of(name)
    graph = fx.Graph()
    target = torch.ops
    for part in full.split("."):
        target = getattr(target, part)
    named = {argument.name: object() for argument in schema.arguments}
    node = graph.call_function(target, (), named)
    call = Call(node, lambda value: value, None, lambda *_: None)  # type: ignore[arg-type]  # nothing is built
    assert set(call.unread()) == set(named) - MEMORY_ARGUMENTS
