"""The work of loops: bytes of operands, and cycles that grow as the trips do."""

from __future__ import annotations

from graphwright.cost.loops import kernel_work, work_at, work_ns_at
from graphwright.cost.machine import MACHINES
from graphwright.cost.predict import Work, predict, stream_ns
from graphwright.ir.loops.nodes import Buffer, Const, Kernel, Kind, Load, Loop, Scalar, Store, apply
from graphwright.ir.symbols import MAX_TERMS, Dim, evaluate, minimum, symbol, total
from graphwright.ir.types import F32, I64

V3, V4 = MACHINES["v3"], MACHINES["v4"]
I = symbol("i")  # noqa: E741


def elementwise(n: Dim, function: str | None = None, index: Dim = I) -> Kernel:
    x, y = Buffer("x", F32, (n,)), Buffer("y", F32, (n,))
    value: Scalar = Load(x, (index,))
    value = value if function is None else apply(function, value)
    body = Loop("i", Kind.VECTOR, n, (Store(y, (I,), value),))
    return Kernel("k", (x, y), ("n",) if not isinstance(n, int) else (), (body,))


def cycles(kernel: Kernel) -> int:
    found = kernel_work(kernel, V4).cycles
    assert isinstance(found, int)
    return found


def test_bytes_are_those_of_the_operands() -> None:
    assert kernel_work(elementwise(1000), V4).moved == 8000


def test_cycles_grow_with_the_trips() -> None:
    few, many = cycles(elementwise(1 << 12)), cycles(elementwise(1 << 16))
    assert 15 < many / few < 17


def test_a_function_of_many_operations_costs_more() -> None:
    assert cycles(elementwise(4096)) < cycles(elementwise(4096, "neg"))
    assert cycles(elementwise(4096, "neg")) * 4 < cycles(elementwise(4096, "exp"))


def test_elements_that_are_apart_cost_more() -> None:
    assert cycles(elementwise(4096)) * 2 < cycles(elementwise(4096, index=3 * I))


def test_elements_at_computed_places_count_no_bytes() -> None:
    x, where, y = Buffer("x", F32, (1 << 20,)), Buffer("w", I64, (64,)), Buffer("y", F32, (64,))
    body = Loop("i", Kind.VECTOR, 64, (Store(y, (I,), Load(x, (Load(where, (I,)),))),))
    assert kernel_work(Kernel("k", (x, where, y), (), (body,)), V4).moved == 64 * 8 + 64 * 4


def test_loop_invariant_values_cost_nothing() -> None:
    y = Buffer("y", F32, (64, 4096))
    row = apply("exp", apply("neg", Const(2.0, F32)))

    def made(value: Scalar) -> Kernel:
        inner = Loop("i", Kind.VECTOR, 4096, (Store(y, (symbol("r"), I), value),))
        return Kernel("k", (y,), (), (Loop("r", Kind.PARALLEL, 64, (inner,)),))

    assert cycles(made(row)) == cycles(made(Const(1.0, F32)))


def test_a_last_tile_counts_as_a_whole_one() -> None:
    y = Buffer("y", F32, (1000,))
    inner = Loop("i", Kind.VECTOR, minimum(256, 1000 - 256 * symbol("b")), (Store(y, (I,), Const(0.0, F32)),))
    tiled = Kernel("k", (y,), (), (Loop("b", Kind.PARALLEL, 4, (inner,)),))
    whole = Kernel("k", (y,), (), (Loop("i", Kind.VECTOR, 1024, (Store(y, (I,), Const(0.0, F32)),)),))
    assert cycles(whole) <= cycles(tiled) < 2 * cycles(whole)


def test_sizes_of_the_model_stand_for_those_of_the_kernel() -> None:
    known = predict(kernel_work(elementwise(5000, "exp"), V3), V3)
    made = work_at(kernel_work(elementwise(symbol("n"), "exp"), V3), {"n": 10 * symbol("batch")})
    assert evaluate(predict(made, V3), {"batch": 500}) == known


def test_bytes_with_too_many_terms_are_those_of_the_largest_operand() -> None:
    work = kernel_work(elementwise(symbol("n")), V3)
    halves = Work(moved=work.moved + 4 * symbol("m"))
    sizes = {name: total(symbol(f"{name}{k}") for k in range(600)) for name in "nm"}
    made = work_at(halves, sizes)
    values = {f"{name}{k}": 1 for name in "nm" for k in range(600)}
    assert (evaluate(made.moved, values), made.cycles) == (8 * 600, 0)
    assert evaluate(work_ns_at(halves, sizes, V3), values) == predict(Work(moved=8 * 600), V3)


def test_a_time_with_too_many_terms_is_that_of_the_moved_bytes() -> None:
    work = Work(cycles=symbol("n"), moved=symbol("m"))
    cycles = total(symbol(f"n{k}") for k in range(MAX_TERMS))
    made = work_ns_at(work, {"n": cycles}, V3)
    assert evaluate(made, {"m": 600_000}) == stream_ns(600_000, V3)
