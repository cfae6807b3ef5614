"""Mutation of graphs: the order of nodes and the use lists stay consistent after any sequence of edits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.ir.build import Builder
from graphwright.ir.clone import clone_graph, inline_region
from graphwright.ir.constants.deferred import Deferred
from graphwright.ir.constants.pool import ConstantPool
from graphwright.ir.graph import Graph, Module, Node
from graphwright.ir.text import structurally_equal
from graphwright.ir.types import F32, tensor
from graphwright.ir.verify import verify

from .support import ToyAdd, ToyBranch, ToyScale, builder


def chain(count: int) -> tuple[Module, Builder, list[Node]]:
    module = Module()
    b, (x,) = builder(module, x=tensor(F32, 3))
    nodes = []
    value = x
    for _ in range(count):
        nodes.append(b.node(ToyAdd(), value, x))
        value = nodes[-1].output
    b.graph.set_outputs([value], ["y"])
    return module, b, nodes


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_random_edits_keep_the_graph_sound(data: st.DataObject) -> None:
    module, b, _ = chain(5)
    graph = b.graph
    for _ in range(data.draw(st.integers(1, 12))):
        nodes = list(graph)
        k = data.draw(st.integers(0, len(nodes) - 1))
        node = nodes[k]
        before = [*graph.inputs, *(n.output for n in nodes[:k])]
        match data.draw(st.sampled_from(["operand", "insert", "replace", "move"])):
            case "operand":
                graph.replace_input(
                    node, data.draw(st.integers(0, len(node.inputs) - 1)), data.draw(st.sampled_from(before))
                )
            case "insert":
                Builder(module, graph, node)(ToyScale(2.0), data.draw(st.sampled_from(before)))
            case "replace" if len(nodes) > 1:
                graph.replace_node(node, [data.draw(st.sampled_from(before))])
            case "move" if not node.output.uses and node.output not in graph.outputs:
                graph.move(node, None)
            case _:
                pass
        verify(module)
    assert [n for n in reversed(graph)] == list(graph)[::-1]
    assert len(list(graph)) == len(graph)


def test_nodes_can_be_erased_and_inserted_during_iteration() -> None:
    module, b, _ = chain(4)
    seen = 0
    for node in b.graph:
        seen += 1
        made = Builder(module, b.graph, node)(ToyScale(2.0), node.operand(0))
        b.graph.replace_node(node, [made])
    assert seen == 4
    assert [node.op for node in b.graph] == [ToyScale(2.0)] * 4
    verify(module)


def test_replacing_keeps_names_and_sources() -> None:
    _, b, (first, second) = chain(2)
    first.sources, second.sources = ("a",), ("b", "a")
    second.output.name = "inner"
    b.graph.replace_node(second, [first.output])
    assert first.sources == ("a", "b")
    assert first.output.name == "inner"
    assert b.graph.outputs == (first.output,)
    assert b.graph.output_names == ("y",)


def test_nodes_in_use_cannot_be_erased() -> None:
    _, b, (first, second) = chain(2)
    for node in (first, second):
        with pytest.raises(ValueError, match="in use"):
            b.graph.erase(node)
    with pytest.raises(ValueError, match="in use"):
        b.graph.remove_input(0)
    with pytest.raises(ValueError, match="already in a graph"):
        b.graph.append(first)
    with pytest.raises(ValueError, match="is not in other"):
        Graph("other").move(first, None)


def test_removing_operands_and_inputs_renumbers() -> None:
    module = Module()
    b, (x, y, z) = builder(module, x=tensor(F32), y=tensor(F32), z=tensor(F32))
    node = b.graph.append(Node(ToyBranch(0), [x, y, z], []))
    b.graph.remove_operand(node, 1)
    b.graph.remove_input(1)
    assert node.inputs == (x, z)
    assert list(z.uses) == [(node, 1)]
    assert z.index == 1


def test_clones_are_equal_and_independent() -> None:
    module, b, nodes = chain(3)
    copy = clone_graph(b.graph)
    assert structurally_equal(b.graph, copy) is None
    copy.replace_input(next(iter(copy)), 0, copy.inputs[0])
    copy.inputs[0].name = "other"
    assert structurally_equal(b.graph, copy) is not None
    assert nodes[0].operand(0).name == "x"
    verify(module)


def test_inlining_a_region() -> None:
    module = Module()
    b, (x, y) = builder(module, x=tensor(F32, 3), y=tensor(F32, 3))
    inner, (p, q) = builder(Module(), "body", p=tensor(F32, 3), q=tensor(F32, 3))
    inner.graph.set_outputs([inner(ToyAdd(), q, inner(ToyScale(2.0), p))])
    b.sources = ("If_0",)
    node = b.node(ToyBranch(), x, y, regions=[inner.graph])
    b.graph.set_outputs(node.outputs, ["y"])
    inline_region(node, inner.graph, [x, y])
    verify(module)
    scale, add = b.graph
    assert (scale.op, add.op) == (ToyScale(2.0), ToyAdd())
    assert add.inputs == (y, scale.output)
    assert scale.sources == ("If_0",)


def test_pool_keeps_equal_tensors_once_and_read_only() -> None:
    pool = ConstantPool()
    first = pool.add(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert pool.add(np.arange(6, dtype=np.float32).reshape(2, 3)) == first
    assert pool.add(np.arange(6, dtype=">f4").reshape(2, 3)) == first
    others = [
        np.arange(6, dtype=np.float32),
        np.arange(6, dtype=np.int32).reshape(2, 3),
        np.array(["a", "b"], object),
        np.array(["a", "c"]),
        np.array(1.0, np.float32),
    ]
    refs = {pool.add(array) for array in others}
    assert len(refs | {first}) == len(pool) == 6
    assert pool[first].flags.writeable is False
    with pytest.raises(ValueError, match="read-only"):
        pool[first][0, 0] = 1
    pool.keep({first})
    assert [*pool] == [first]


def test_pool_leaves_the_callers_array_writable() -> None:
    array = np.zeros(3, np.float32)
    ConstantPool().add(array)
    assert array.flags.writeable


def test_pool_computes_deferred_tensors_when_they_are_read() -> None:
    pool, made = ConstantPool(), []
    source = pool.add(np.arange(3, dtype=np.float32))

    def fill(out: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> None:
        made.append(out.shape)
        out[...] = 7

    def jobs(out: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> list[Callable[[], object]]:
        return [partial(fill, out)]

    derived = pool.add_derived(source, "sevens", Deferred(F32, (2, 2), jobs))
    assert pool.add_derived(source, "sevens", Deferred(F32, (2, 2), jobs)) == derived
    assert pool.add_derived(source, "eights", Deferred(F32, (2, 2), jobs)) != derived
    assert isinstance(pool.stored(derived), Deferred) and not made
    assert pool[derived].tolist() == [[7, 7], [7, 7]]
    assert pool[derived] is pool.stored(derived) and made == [(2, 2)]
    assert pool[derived].flags.writeable is False


def test_pool_restores_tensors_only_under_their_digests() -> None:
    pool = ConstantPool()
    name = pool.add(np.zeros(2, np.float32)).digest
    pool.restore(name, np.ones(2, np.float32))
    assert [array.tolist() for array in map(pool.__getitem__, pool)] == [[1, 1]]
    for wrong in ("", "a" * 19, "A" * 20, "a" * 20 + "\n", "../../etc/passwd    "):
        with pytest.raises(ValueError, match="not a digest"):
            pool.restore(wrong, np.ones(2, np.float32))
