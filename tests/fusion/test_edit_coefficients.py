"""The coefficients of the model of edits: one for each feature, and gains where a merge surely gains."""

from __future__ import annotations

import hashlib
import math

import graphwright as gw
from graphwright.cost.machine import MACHINES
from graphwright.fusion.edit_model import FEATURES, FILE, KINDS, EditModel, coefficients, digest
from graphwright.fusion.kernel_nodes import KernelNodes
from graphwright.ir.build import new_main_graph
from graphwright.ir.graph import Module
from graphwright.ir.types import F32, tensor
from graphwright.ops.core.unary import Neg, Relu


def test_there_is_a_coefficient_for_each_feature() -> None:
    assert {kind: tuple(named) for kind, named in coefficients().items()} == dict.fromkeys(KINDS, FEATURES)
    assert all(math.isfinite(value) for named in coefficients().values() for value in named.values())


def test_two_cheap_loops_over_memory_are_faster_as_one() -> None:
    module = Module()
    b, (x,) = new_main_graph(module, [("x", tensor(F32, 4096, 4096))])
    module.main.set_outputs([b(Relu(), b(Neg(), x))])
    nodes = list(module.main)
    for machine in MACHINES.values():
        model = EditModel(machine, coefficients())
        assert model.predict([KernelNodes.of([node]) for node in nodes], [KernelNodes.of(nodes)]) < -0.3


def test_packages_contain_the_digest_of_the_coefficients() -> None:
    builder = gw.GraphBuilder()
    builder.output("y", builder.relu(builder.input("x", "f32", (4,))))
    options = builder.compile().package.options
    assert options["fusion_model"] == digest() == hashlib.sha256(FILE.read_bytes()).hexdigest()[:32]
