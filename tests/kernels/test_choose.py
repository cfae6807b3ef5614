"""The candidate of the shortest predicted time does a node, whatever the order of registration."""

from __future__ import annotations

import pytest

from graphwright.compiler.report import compile_report
from graphwright.ir.build import new_main_graph
from graphwright.ir.graph import Module, Node
from graphwright.ir.loops.nodes import Load, Store
from graphwright.ir.symbols import Dim, symbol
from graphwright.ir.types import F32, Layout, tensor
from graphwright.kernels.candidates import choose as choosing
from graphwright.kernels.candidates import registry
from graphwright.kernels.candidates.choose import Choice, choose
from graphwright.kernels.candidates.context import Candidate, Context, Unsupported
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Alias, Launch, Run
from graphwright.kernels.loops.kernel_builder import KernelBuilder, nest
from graphwright.kernels.ref import KernelRef
from graphwright.kernels.select import Selection, select_kernels
from graphwright.ops.core.trilu import Trilu
from graphwright.records import replace
from graphwright.targets.cpu.isa import ISAS
from graphwright.targets.cpu.target import CpuTarget

TARGET = CpuTarget(ISAS["v3"])
N = symbol("N")


USERS: set[Candidate] = set()
"""Candidates that count as users' own."""


@pytest.fixture(autouse=True)
def no_other_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.load()
    monkeypatch.setitem(registry._CANDIDATES, Trilu, [])
    for module in (registry, choosing):
        monkeypatch.setattr(module, "is_plugin_op", USERS.__contains__)
    USERS.clear()


def register(name: str, work: Dim, launches: int = 1, users: bool = False, **more: bool) -> None:
    """A candidate with kernels of its own, which says that each takes ``work``."""

    def does(node: Node, context: Context) -> Run:
        made = []
        for number in range(launches):
            builder, count, i = (
                KernelBuilder(node, context, f"{name}{number}"),
                node.output.type.elements,
                symbol("i"),
            )
            x = Load(builder.input(node.operand(0), (count,)), (i,))
            store = Store(builder.output(node.output, (count,)), (i,), x)
            made.append(replace(builder.launch(nest((("i", builder.size(count)),), store)), work=work))
        return Run(tuple(made))

    USERS.update({does} if users else ())
    candidate(Trilu, **more)(does)


def refuse(why: str) -> None:
    candidate(Trilu)(lambda node, context: why)


def module_of(size: Dim = 5) -> tuple[Module, Node]:
    module = Module()
    b, (x,) = new_main_graph(module, [("x", tensor(F32, size, 3))])
    y = b(Trilu(), x)
    module.main.set_outputs([y], ["y"])
    return module, y.producer


def chosen(size: Dim = 5) -> tuple[Choice, list[str]]:
    """The choice, and the kernels that are generated for it."""
    module, node = module_of(size)
    context = Context(TARGET, module.constants, module.symbols)
    choice = choose(node, context)
    return choice, [kernel.name for kernel, _ in context.generated.kernels()]


def selected(size: Dim = 5) -> Selection:
    module, _ = module_of(size)
    return select_kernels(module, module.main, TARGET)


def test_the_faster_candidate_is_chosen_in_any_order_of_registration() -> None:
    register("slow", 900)
    register("fast", 300)
    register("slowest", 2000)
    choice, kernels = chosen()
    assert kernels == ["fast0_0"]
    assert [offer.ns for offer in choice.offers] == [300, 900, 2000]
    assert isinstance(choice.action, Run)
    (launch,) = choice.action.launches
    assert isinstance(launch, Launch) and launch.kernel.symbol == "fast0_0"


def test_of_equal_candidates_the_first_registered_is_chosen() -> None:
    register("first", 300)
    register("second", 300)
    assert chosen()[1] == ["first0_0"]


def test_candidates_that_launch_the_same_kernel_are_one_alternative() -> None:
    for _ in range(2):
        candidate(Trilu)(
            lambda node, context: Launch(KernelRef("same"), (*node.inputs, node.output), (1,), (), 1)
        )
    choice, _ = chosen()
    assert len(choice.offers) == 1
    assert choice.others == ()


def test_the_cost_of_a_second_launch_counts() -> None:
    register("two", 300, launches=2)
    register("one", 600 + TARGET.machine.task_ns - 1)
    assert chosen()[1] == ["one0_0"]


def test_memory_of_the_operand_takes_no_time() -> None:
    register("one", 1)
    candidate(Trilu)(lambda node, context: Alias(node.operand(0)))
    choice, kernels = chosen()
    assert kernels == [] and isinstance(choice.action, Alias)


def test_a_users_candidate_takes_precedence() -> None:
    register("fast", 300)
    register("slow", 900, users=True)
    register("slower", 1900, users=True)
    choice, kernels = chosen()
    assert kernels == ["slow0_0"]
    assert [offer.ns for offer in choice.offers] == [900, 1900]


def test_sizes_that_are_not_known_count_as_usual_ones() -> None:
    register("few", 10 * N)  # 640 at the usual size
    register("many", 500 + N)
    choice, kernels = chosen(N)
    assert kernels == ["many0_0"]
    assert [offer.ns for offer in choice.offers] == [564, 640]


def test_a_candidate_that_does_not_apply_leaves_no_kernel() -> None:
    def generates_and_refuses(node: Node, context: Context) -> str:
        builder = KernelBuilder(node, context, "dropped")
        x = Load(builder.input(node.operand(0), (15,)), (symbol("i"),))
        builder.launch(nest((("i", 15),), Store(builder.output(node.output, (15,)), (symbol("i"),), x)))
        return "not today"

    def cannot(node: Node, context: Context) -> Run:
        raise Unsupported("not here")

    candidate(Trilu)(generates_and_refuses)
    candidate(Trilu)(cannot)
    choice, kernels = chosen()
    assert (choice.action, choice.reasons, kernels) == (None, ("not today", "not here"), [])
    register("last", 10**9)
    assert chosen()[1] == ["last0_0"]


def test_values_in_channel_blocks_go_to_candidates_that_take_them() -> None:
    register("rows", 1)
    register("blocks", 1000, blocks=True)
    module, node = module_of()
    node.output.layout = Layout((0, 1), ((1, 8),))
    context = Context(TARGET, module.constants, module.symbols)
    choose(node, context)
    assert [kernel.name for kernel, _ in context.generated.kernels()] == ["blocks0_0"]


def test_the_report_shows_the_predicted_times() -> None:
    register("slow", 9_000)
    register("fast", 300)
    refuse("never")
    steps = selected().steps
    assert "chosen by predicted time on one core\n" in compile_report([], steps)
    assert ": fast0_0 (0.3 us); not generated slow0 (9.0 us)\n" in compile_report([], steps)


def test_the_report_says_nothing_of_nodes_that_one_kernel_does() -> None:
    register("only", 300)
    assert "chosen by" not in compile_report([], selected().steps)
