"""Pictures of modules and tasks: nodes, edges, groups by scopes and regions, and what links stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import onnx
import pytest

import graphwright as gw
from graphwright.frontends.onnx.name_scopes import modules_of
from graphwright.view.levels import Kind, levels_of
from graphwright.view.picture import ROOT, GraphPicture, Group, PictureEdge, PictureNode
from graphwright.view.scopes import equal_groups, scope_of, simplified
from graphwright.view.stages import NAMES, PictureObserver, kernels_of, pictures_of_package
from graphwright.view.task_picture import TaskContext
from tests.view.support import layers

OPTIONS = {"device": "cpu", "threads": 1}


@pytest.fixture(scope="module")
def compiled() -> tuple[gw.Model, dict[str, GraphPicture]]:
    observer = PictureObserver()
    made = gw.compile(layers(4), options=OPTIONS, observe=observer)
    return made, {picture.stage: picture for picture in observer.pictures()}


def paths(picture: GraphPicture) -> list[str]:
    """The path of each group: its name after those of the groups around it."""
    names = [""]
    for group in picture.groups[1:]:
        names.append(f"{names[group.parent]}/{group.name}")
    return names


@pytest.mark.parametrize(
    ("sources", "path"),
    [
        (["/layer1/layer1.0/conv1/Conv"], ("layer1", "layer1.0", "conv1")),
        (["layer1.0.conv1"], ("layer1", "0")),
        (["Conv_12"], ()),
        (["p2o.Conv.12"], ()),
        (["/a/b/X", "/a/c/Y"], ("a",)),
        (["/a/b/X", "Y"], ()),
        ([], ()),
        (["///"], ()),
        (["/" * 500], ()),
        (["a/" * 500], ("a",) * 32),
    ],
)
def test_scopes_are_in_the_names(sources: Sequence[str], path: tuple[str, ...]) -> None:
    assert scope_of(sources, {}) == path


def test_scopes_that_exporters_store_in_metadata() -> None:
    known = {"conv2d_1": ("layer1", "0"), "relu": ("layer1", "1")}
    assert scope_of(["conv2d_1"], known) == ("layer1", "0")
    assert scope_of(["conv2d_1", "relu"], known) == ("layer1",)
    proto = layers(2, "node_")
    for k, node in enumerate(proto.graph.node):
        scopes = ["", "blocks", f"blocks.{k // 3}", node.name]
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=str(scopes))
        node.name = f"node_{k}"
    observer = PictureObserver()
    gw.compile(proto, options=OPTIONS, observe=observer)
    for picture in observer.pictures():
        scopes = {node.scope for node in picture.nodes if node.sources}
        assert scopes == {("blocks", "0"), ("blocks", "1")}
        if picture.stage == "imported":
            assert paths(picture) == ["", "/blocks", "/blocks/0", "/blocks/1"]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("['', 'layer1', 'layer1.0', 'layer1.0.conv1', 'conv2d_1']", ("layer1", "0", "conv1")),
        ("['', 'relu']", ()),
        ("['relu']", ()),
        ("[]", ()),
        ("", ()),
        ("'" * 5000, ()),
        ("['a', '" + "b." * 3000 + "', 'c']", ()),
    ],
)
def test_name_scopes_of_the_exporter(text: str, path: tuple[str, ...]) -> None:
    assert modules_of(text) == path


def test_all_stages_of_a_compilation(compiled: tuple[gw.Model, dict[str, GraphPicture]]) -> None:
    assert list(compiled[1]) == list(NAMES)


def test_the_imported_graph_is_the_models(compiled: tuple[gw.Model, dict[str, GraphPicture]]) -> None:
    picture, proto = compiled[1]["imported"], layers(4)
    boxes = Counter((node.op, node.sources) for node in picture.nodes)
    expected = Counter((node.op_type, (node.name,)) for node in proto.graph.node)
    assert boxes == expected + Counter({("input", ()): 1, ("output", ()): 1})
    names = [node.sources[0] if node.sources else node.name for node in picture.nodes]
    assert {(names[edge.producer], names[edge.consumer]) for edge in picture.edges} == set(edges_of(proto))
    assert {edge.text for edge in picture.edges} == {"f32[4, 8]"}


def edges_of(proto: onnx.ModelProto) -> Iterator[tuple[str, str]]:
    """The edges between nodes, by their sources; inputs and outputs by name."""
    made = {name: node.name for node in proto.graph.node for name in node.output} | {"x": "x"}
    for node in proto.graph.node:
        yield from ((made[name], node.name) for name in node.input if name in made)
    yield from ((made[value.name], value.name) for value in proto.graph.output)


def test_equal_layers_are_one_group(compiled: tuple[gw.Model, dict[str, GraphPicture]]) -> None:
    """All nodes are in the scope encoder, which only contains four equal layers."""
    picture = compiled[1]["imported"]
    assert paths(picture) == [
        "", "/encoder", *(f"/encoder/layer.{k}{inner}" for k in range(4) for inner in ("", "/dense")),
    ]  # fmt: skip
    assert picture.groups[1].repeats == 4
    equal = equal_groups(picture)
    assert len({equal[k] for k in range(2, 10, 2)}) == 1 and len({equal[k] for k in range(3, 10, 2)}) == 1
    assert equal[2] != equal[3]


def test_fused_regions_are_groups_with_the_bytes_that_they_move(
    compiled: tuple[gw.Model, dict[str, GraphPicture]],
) -> None:
    """The matmul, addition and activation of a layer are one kernel, which reads and writes 4 x 8 f32."""
    picture = compiled[1]["fused"]
    regions = [group for group in picture.groups if group.node is not None]
    assert [group.node.op for group in regions if group.node] == ["MatMul + Add + Relu"] * 4
    for k, group in enumerate(regions):
        assert group.node is not None
        scope = f"/encoder/layer.{k}"
        assert group.node.sources == (f"{scope}/dense/MatMul", f"{scope}/dense/Add", f"{scope}/Relu")
        assert (group.node.figures["bytes"], group.node.figures["weights"]) == (
            2 * 4 * 8 * 4,
            8 * 8 * 4 + 8 * 4,
        )
    inside = [node for node in picture.nodes if picture.groups[node.group].node is not None]
    assert Counter(node.op for node in inside) == {"MatMul": 4, "Add": 4, "Relu": 4}


def test_tasks_know_their_nodes_and_kernels(compiled: tuple[gw.Model, dict[str, GraphPicture]]) -> None:
    _, pictures = compiled
    tasks = [node for node in pictures["tasks"].nodes if node.kernels]
    assert len(tasks) == 4 and all(len(node.sources) == 3 for node in tasks)
    assert {source for node in tasks for source in node.sources} == {n.name for n in layers(4).graph.node}
    assert all(node.figures["bytes"] == 2 * 4 * 8 * 4 and node.figures["predicted_ns"] > 0 for node in tasks)


def test_tasks_say_what_their_kernels_were_chosen_from() -> None:
    """A matmul alone could also be generated loops; the kernel that runs is the first candidate."""
    b = gw.GraphBuilder()
    x, y = b.input("x", np.float32, (64, 64)), b.input("y", np.float32, (64, 64))
    b.output("z", b.matmul(x, y))
    observer = PictureObserver()
    gw.compile(b.build(), options=OPTIONS, observe=observer)
    (told,) = [node for node in observer.pictures()[-1].nodes if "chosen from" in node.facts]
    first, *others = told.facts["chosen from"].splitlines()
    assert told.kernels[0] in first and others
    times = [float(line.split()[0]) for line in (first, *others)]
    assert times == sorted(times)


def test_generated_kernels_have_their_code() -> None:
    """A softmax is one kernel; the activation after a matmul is a function that the library's kernel
    calls.
    """
    b = gw.GraphBuilder()
    x = b.input("x", np.float32, (16, 8))
    b.output("y", b.softmax(b.hard_swish(b.matmul(x, np.ones((8, 8), np.float32)))))
    observer = PictureObserver()
    model = gw.compile(b.build(), options=OPTIONS, observe=observer)
    launched = {kernel for node in observer.pictures()[-1].nodes for kernel in node.kernels}
    generated = kernels_of(model.package)
    assert len(generated) == 2 and generated.keys() <= launched
    for name, code in generated.items():
        assert f"int32_t {name}(" in code.source and code.source.endswith("}")
        assert code.loops.startswith(f"kernel {name}(") and code.loops.endswith("}")


def test_a_package_has_its_last_graph_and_tasks(compiled: tuple[gw.Model, dict[str, GraphPicture]]) -> None:
    model, pictures = compiled
    found = {picture.stage: picture for picture in pictures_of_package(model.package)}
    assert list(found) == ["laid-out", "tasks"]
    for stage, picture in found.items():
        same = pictures[stage]
        assert [(n.op, n.name, n.sources) for n in picture.nodes] == [
            (n.op, n.name, n.sources) for n in same.nodes
        ]


def test_names_of_tasks_that_join_several_nodes() -> None:
    of = TaskContext({"a + b": ("a", "b"), "c": ("c",), "d, e": ("d, e",)}).sources_of
    assert of("a + b") == ("a", "b") and of("a + b, c") == ("a", "b", "c")
    assert of("d, e") == ("d, e",) and of("unknown") == ()


def test_bodies_of_loops_are_groups() -> None:
    b = gw.GraphBuilder()
    x = b.input("x", np.float32, (4,))
    condition = b.greater(b.reduce_sum(x, keepdims=False), np.float32(0))
    b.output("y", b.if_(condition, lambda: b.relu(x), lambda: b.neg(x)))
    observer = PictureObserver()
    gw.compile(b.build(), options=OPTIONS, observe=observer)
    picture = next(each for each in observer.pictures() if each.stage == "imported")
    branch = next(node for node in picture.nodes if node.op == "If")
    held = {node.op: picture.groups[node.group] for node in picture.nodes if node.op in ("Relu", "Neg")}
    assert len(held) == 2
    assert {group.parent for group in held.values()} == {branch.group}


def box(group: int = ROOT) -> PictureNode:
    return PictureNode("Op", "", group)


def test_a_value_passes_the_borders_of_groups_through_ports() -> None:
    """0 is in group 1 in group 2, and 1 in group 3: each border has one port, for any number of readers."""
    groups = (Group(""), Group("a"), Group("b", 1), Group("c"))
    edges = (PictureEdge(0, 1, 0, "t"), PictureEdge(0, 2, 0, "t"), PictureEdge(0, 3, 0, "t"))
    picture = GraphPicture("x", (box(2), box(3), box(3), box(ROOT)), edges, groups)
    root, a, b, c = levels_of(picture)
    assert [(item.kind, item.number) for item in b.items] == [(Kind.NODE, 0), (Kind.OUT, 0)]
    assert [(item.kind, item.number) for item in a.items] == [(Kind.GROUP, 2), (Kind.OUT, 0)]
    assert [(item.kind, item.number) for item in c.items] == [(Kind.NODE, 1), (Kind.NODE, 2), (Kind.IN, 0)]
    assert list(b.edges) == [(0, 1)] and list(a.edges) == [(0, 1)] and list(c.edges) == [(2, 0), (2, 1)]
    assert [(item.kind, item.number) for item in root.items] == [
        (Kind.GROUP, 1),
        (Kind.GROUP, 3),
        (Kind.NODE, 3),
    ]
    assert root.edges == {(0, 1): "t", (0, 2): "t"}


def test_a_group_with_one_member_is_replaced_by_it() -> None:
    groups = (Group(""), Group("only"), Group("a", 1), Group("b", 2), Group("region", 3, box()))
    picture = simplified(GraphPicture("x", (box(4), box(2)), (), groups))
    assert [(group.name, group.parent) for group in picture.groups] == [("", ROOT), ("region", ROOT)]
    assert [node.group for node in picture.nodes] == [1, ROOT]


def test_a_picture_without_nodes() -> None:
    picture = simplified(GraphPicture("x", (), (), (Group(""),)))
    assert len(picture.groups) == 1 and levels_of(picture)[ROOT].items == []
