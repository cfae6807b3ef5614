"""Bytes of kernels, fused and op by op, worked out by hand."""

from __future__ import annotations

from graphwright.fusion.fuse import Fuse
from graphwright.fusion.traffic import NodeTraffic, Traffic, total_of, traffic_of
from graphwright.passes.infer_shapes import InferShapes
from graphwright.passes.manager import run_passes
from graphwright.targets.cpu.target import TARGETS

from .support import module_of

X = 8 * 16 * 4
"""Bytes of an f32[8, 16]."""


def nodes_of(head: str, *lines: str) -> list[NodeTraffic]:
    module = module_of(head, *lines)
    run_passes(module, InferShapes(), Fuse(TARGETS["v4"]))
    return traffic_of(module)


def test_a_kernel_reads_and_writes_what_crosses_its_border() -> None:
    (node,) = nodes_of(
        "%x: f32[8, 16]",
        '%a = Exp(%x): f32[8, 16] from "a"',
        '%b = Add(%a, %x): f32[8, 16] from "b"',
        "return %b",
    )
    assert node == NodeTraffic("a + b", ("Exp", "Add"), ("a", "b"), Traffic(X, X), Traffic(3 * X, 2 * X), 0)


def test_views_move_nothing_and_values_that_leave_are_written() -> None:
    (node,) = nodes_of(
        "%x: f32[8, 16]",
        '%a = Exp(%x): f32[8, 16] from "a"',
        '%v = Reshape[shape=(128,)](%a): f32[128] from "v"',
        '%b = Neg(%v): f32[128] from "b"',
        "return %a, %b",
    )
    assert (node.ops, node.fused, node.unfused) == (("Exp", "Neg"), Traffic(X, 2 * X), Traffic(2 * X, 2 * X))


def test_totals_and_dynamic_sizes() -> None:
    nodes = nodes_of(
        "%x: f32[N, 16], %w: f32[16, 16]",
        '%a = MatMul(%x, %w): f32[N, 16] from "a"',
        '%b = MatMul(%a, %w): f32[N, 16] from "b"',
        "return %b",
    )
    guess = 64 * 16 * 4
    assert [node.fused for node in nodes] == [Traffic(guess + 1024, guess)] * 2
    assert total_of(nodes) == (Traffic(2 * guess + 2048, 2 * guess),) * 2
    assert total_of([]) == (Traffic(), Traffic())
