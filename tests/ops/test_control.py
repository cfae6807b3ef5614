"""If: types inferred for its outputs, and operands shared by its branches."""

from __future__ import annotations

import pytest

from graphwright.errors import ModelError
from graphwright.ir.build import Builder, new_main_graph
from graphwright.ir.graph import Graph, Module, Value
from graphwright.ir.op import Fact, Inference, InferError
from graphwright.ir.symbols import Expr, SymbolTable, symbol
from graphwright.ir.types import BOOL, F32, I64, TensorType, tensor
from graphwright.ops.control.if_ import If
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.transpose import Transpose

from .peer import NodeImporter, RefusedError, importer_of


def inference() -> Inference:
    return Inference(SymbolTable(), "if", [Fact(tensor(BOOL))])


def joined(*branches: TensorType) -> TensorType:
    return If(1).infer_regions(inference(), [[Fact(t)] for t in branches])[0].type


def test_equal_sizes_stay_and_others_become_symbols() -> None:
    n = symbol("N")
    type = joined(tensor(F32, n, 3, 4), tensor(F32, n, 3, 5))
    assert type.dims[:2] == (n, 3)
    assert isinstance(type.dims[2], Expr)
    assert type.dims[2] != n


def test_ranks_that_differ_are_unknown() -> None:
    assert joined(tensor(F32, 2), tensor(F32, 2, 1)) == TensorType(F32, None)
    assert joined(tensor(F32, 2), TensorType(F32, None)) == TensorType(F32, None)


def test_dtypes_must_agree() -> None:
    with pytest.raises(InferError, match="f32 in one branch and i64 in the other"):
        joined(tensor(F32, 2), tensor(I64, 2))


def test_branches_must_have_the_same_number_of_outputs() -> None:
    with pytest.raises(InferError, match="1 and 0 outputs"):
        If(1).infer_regions(inference(), [[Fact(tensor(F32))], []])


def branch(module: Module, name: str, captured: list[Value], join: bool) -> tuple[Graph, list[Value]]:
    graph = Graph(name)
    inner = [graph.add_input(v.type, v.name) for v in captured]
    b = Builder(module, graph)
    graph.set_outputs([b(Concat(0), *inner) if join else b(Transpose(), inner[0])])
    return graph, captured


def outer() -> tuple[Module, Builder, tuple[Value, ...]]:
    module = Module()
    square = tensor(F32, 2, 2)
    b, values = new_main_graph(module, [("c", tensor(BOOL)), ("p", square), ("q", square), ("r", square)])
    return module, b, values


def test_both_branches_receive_the_union_of_their_captures() -> None:
    module, b, (c, p, q, r) = outer()
    importer = NodeImporter(b, "If", 16, [c], {}, 1)
    importer.regions = {
        "then_branch": branch(module, "yes", [q, p], join=True),
        "else_branch": branch(module, "no", [r], join=False),
    }
    y = importer_of("If", 16)(importer)
    node = y.producer
    assert node.inputs == (c, q, p, r)
    for graph in node.regions:
        assert [v.name for v in graph.inputs] == ["q", "p", "r"]
        assert [v.index for v in graph.inputs] == [0, 1, 2]
    then, other = node.regions
    assert [v.name for v in next(iter(then)).inputs] == ["q", "p"]
    assert [v.name for v in next(iter(other)).inputs] == ["r"]
    assert y.type.dims[1] == 2
    assert isinstance(y.type.dims[0], Expr)  # 4 rows or 2


def test_an_import_with_unequal_outputs_is_rejected() -> None:
    module, b, (c, p, q, _r) = outer()
    importer = NodeImporter(b, "If", 16, [c], {}, 1)
    then, captured = branch(module, "yes", [q, p], join=True)
    then.set_outputs([])
    importer.regions = {"then_branch": (then, captured), "else_branch": branch(module, "no", [p], join=False)}
    with pytest.raises(RefusedError, match="0 and 1 outputs"):
        importer_of("If", 16)(importer)


def test_a_hand_written_if_with_wrong_regions_is_rejected() -> None:
    module, b, (c, p, q, _r) = outer()
    graph, _ = branch(module, "yes", [p, q], join=True)
    with pytest.raises((ModelError, InferError), match="1 regions"):
        b(If(1), c, p, q, regions=[graph])
