"""Each rule of the IR, broken on purpose: all faults in one error, each under its line with a caret."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from graphwright.errors import VerifyError
from graphwright.ir.build import Builder
from graphwright.ir.builtin.constant import Constant
from graphwright.ir.graph import Graph, Module, Node, Role, Signature
from graphwright.ir.op import ConstRef
from graphwright.ir.symbols import Constraint, Range, symbol
from graphwright.ir.types import F32, I64, Layout, TensorType, tensor
from graphwright.ir.verify import verify

from .support import ToyAdd, ToyBranch, ToyScale, builder


def sample() -> Module:
    """x + c, scaled, through a branch."""
    module = Module()
    b, (x, y) = builder(module, x=tensor(F32, symbol("N"), 3), y=tensor(F32, 3))
    c = b.const(np.ones(3, np.float32))
    s = b(ToyAdd(), x, c)
    t = b(ToyScale(2.0), s, y)
    regions = []
    for name in ("then", "else"):
        inner, (p,) = builder(Module(), name, p=t.type)
        inner.graph.set_outputs([inner(ToyScale(3.0), p)])
        regions.append(inner.graph)
    b.graph.set_outputs([b(ToyBranch(), t, regions=regions)], ["out"])
    module.signatures["main"] = Signature((Role.DATA, Role.DATA))
    verify(module)
    return module


def node(module: Module, index: int) -> Node:
    return list(module.main)[index]


def _swap_order(m: Module) -> None:
    m.main.move(node(m, 2), node(m, 1))


def _stale_use(m: Module) -> None:
    m.main.inputs[0].uses[node(m, 2), 0] = None


def _missing_use(m: Module) -> None:
    m.main.inputs[0].uses.clear()


def _foreign_operand(m: Module) -> None:
    region = node(m, 3).regions[0]
    region.replace_input(next(iter(region)), 0, m.main.inputs[0])


def _erased_operand(m: Module) -> None:
    other = Node(ToyScale(), [m.main.inputs[1]], [tensor(F32, 3)])
    m.main.replace_input(node(m, 2), 1, other.output)


def _foreign_output(m: Module) -> None:
    m.main.set_outputs([node(m, 3).regions[0].inputs[0]])


def _wrong_type(m: Module) -> None:
    node(m, 1).output.type = tensor(F32, symbol("N"), 4)


def _wrong_dtype(m: Module) -> None:
    node(m, 2).output.type = tensor(I64, symbol("N"), 3)


def _bad_attribute(m: Module) -> None:
    node(m, 2).op = ToyScale(-1.0)


def _absent(m: Module) -> None:
    m.main.replace_input(node(m, 1), 1, None)


def _conflict(m: Module) -> None:
    m.main.inputs[1].type = tensor(F32, 5)
    m.main.replace_input(node(m, 1), 1, m.main.inputs[1])


def _lost_constant(m: Module) -> None:
    m.constants.keep(set())


def _constant_of_another_type(m: Module) -> None:
    op = node(m, 0).op
    assert isinstance(op, Constant)
    node(m, 0).op = Constant(op.value, tensor(F32, 3, 1))


def _layout(m: Module) -> None:
    node(m, 1).output.layout = Layout((0, 1, 2))


def _blocks(m: Module) -> None:
    node(m, 1).output.layout = Layout((0, 1), ((4, 16),))


def _shared_region(m: Module) -> None:
    owner = node(m, 3)
    owner.regions = (owner.regions[0], owner.regions[0])


def _regions_of_none(m: Module) -> None:
    node(m, 2).regions = (Graph("body"),)


def _region_inputs(m: Module) -> None:
    node(m, 3).regions[1].add_input(tensor(F32), "extra")


def _region_type(m: Module) -> None:
    node(m, 3).regions[1].inputs[0].type = tensor(F32, 7, 7)


def _cycle(m: Module) -> None:
    first, last = node(m, 0), node(m, 3)
    last.next = first


def _broken_link(m: Module) -> None:
    node(m, 2).previous = None


def _output_count(m: Module) -> None:
    node(m, 2).outputs = ()


def _wrong_producer(m: Module) -> None:
    node(m, 2).output.producer = node(m, 1)


FAULTS: list[tuple[Callable[[Module], object], str]] = [
    (_swap_order, "used before it is defined"),
    (_stale_use, "has stale input 0"),
    (_missing_use, "misses input 0"),
    (_foreign_operand, "belongs to main: a region can only use its own values"),
    (_erased_operand, "its producer was erased"),
    (_foreign_output, "is not a value of this graph"),
    (_wrong_type, r"ToyAdd infers f32\[N, 3\] here"),
    (_wrong_dtype, r"ToyScale infers f32\[N, 3\] here"),
    (_bad_attribute, "factor -1.0 is negative"),
    (_absent, "ToyAdd needs input 1"),
    (_conflict, "3 and 5 differ"),
    (_lost_constant, "is not in the constant pool"),
    (_constant_of_another_type, r"the pool holds f32\[3\]"),
    (_layout, "does not fit"),
    (_blocks, "does not fit"),
    (_shared_region, "region of more than one node"),
    (_regions_of_none, "ToyScale has no regions"),
    (_region_inputs, "has 2 inputs and receives 1"),
    (_region_type, r"receives f32\[N, 3\]"),
    (_cycle, "cycle|not linked"),
    (_broken_link, "not linked"),
    (_output_count, "has 1 outputs, not 0"),
    (_wrong_producer, "has a wrong producer or index"),
    (lambda m: setattr(m.main, "name", "other"), "kept under the name 'main'"),
    (lambda m: m.graphs.update(again=m.main), "twice"),
    (lambda m: m.symbols.ranges.update(N=Range(5, 2)), "empty range"),
    (lambda m: m.symbols.multiples.update(N=0), "multiple of 0"),
    (lambda m: m.symbols.constraints.setdefault(Constraint("<", 1, symbol("N"), "a")), "unknown relation"),
    (lambda m: m.signatures.update(lost=Signature(())), "the module has no such graph"),
    (lambda m: m.signatures.update(main=Signature((Role.DATA,))), "1 roles for 2 inputs"),
    (
        lambda m: m.signatures.update(main=Signature((Role.DATA,) * 2, ((0, 2),))),
        "the graph has no output 0 or no input 2",
    ),
    (lambda m: setattr(m.main.inputs[1], "name", "x"), "2 inputs of 'main' are called 'x'"),
]


@pytest.mark.parametrize(("spoil", "message"), FAULTS)
def test_each_broken_rule_is_found(spoil: Callable[[Module], object], message: str) -> None:
    module = sample()
    spoil(module)
    with pytest.raises(VerifyError, match=message):
        verify(module)


def test_all_faults_come_at_once_with_carets() -> None:
    module = sample()
    _bad_attribute(module)
    _wrong_type(module)
    with pytest.raises(VerifyError) as caught:
        verify(module, "after my_pass")
    assert len(caught.value.diagnostics) == 2
    assert all(d.where.startswith("after my_pass: ") for d in caught.value.diagnostics)
    lines = str(caught.value).splitlines()
    carets = [k for k, line in enumerate(lines) if "^" in line]
    assert len(carets) == 2
    line, caret = lines[carets[0] - 1], lines[carets[0]]
    assert line[caret.index("^") :].startswith(("ToyScale[factor=-1.0]", "f32[N, 4]"))


def test_verification_changes_nothing() -> None:
    module = Module()
    b, (x, y) = builder(module, x=tensor(F32, symbol("N")), y=tensor(F32, symbol("M")))
    b.graph.append(Node(ToyAdd(), [x, y], [tensor(F32, symbol("N"))]))
    verify(module)
    assert not module.symbols.constraints


def test_unknown_ranks_are_compatible_with_anything() -> None:
    module = Module()
    b, (x,) = builder(module, x=TensorType(F32, None))
    b.graph.append(Node(ToyAdd(), [x, x], [tensor(F32, 3)]))
    verify(module)
    x.type = tensor(F32, 4)
    with pytest.raises(VerifyError, match=r"f32\[3\]"):
        verify(module)


def test_a_constant_without_its_tensor_is_listed() -> None:
    module = Module()
    b = Builder(module, module.add_graph(Graph("main")))
    b.graph.append(Node(Constant(ConstRef("0" * 20), tensor(F32)), (), [tensor(F32)]))
    with pytest.raises(VerifyError, match=r"#0{20} is not in the constant pool"):
        verify(module)
