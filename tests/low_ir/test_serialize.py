"""Serialization of programs: decoding inverts encoding, and other data is rejected."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.ir.types import DTYPES
from graphwright.kernels.ref import KernelRef
from graphwright.low_ir.serialize import from_plain, to_plain
from graphwright.low_ir.tasks import (
    Binding,
    Block,
    Buffer,
    Code,
    FunctionOperand,
    HostFunction,
    Instruction,
    Operand,
    Storage,
    Task,
    TaskGraph,
    TaskKind,
)
from tests.low_ir.words import encode

numbers = st.integers(-(2**63), 2**63 - 1)
lists = st.lists(numbers, max_size=3).map(tuple)
texts = st.text(max_size=5)
dtypes = st.sampled_from(sorted(DTYPES.values(), key=str))
typed = st.tuples(dtypes, lists)
operands = st.none() | st.builds(Operand, numbers, numbers) | st.builds(FunctionOperand, numbers)


def some(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(strategy, max_size=3).map(tuple)


ports = st.builds(Binding, texts, dtypes, lists)
tasks = st.builds(
    Task, st.sampled_from(TaskKind), some(operands), lists, numbers, lists, numbers, numbers, numbers, lists,
    lists, numbers, texts, texts, numbers,
)  # fmt: skip
programs = st.builds(
    TaskGraph,
    some(ports),
    some(ports),
    some(st.builds(Instruction, st.sampled_from(Code), numbers, numbers, texts)),
    some(st.builds(Buffer, st.sampled_from(Storage), numbers, numbers, lists, texts)),
    some(tasks),
    some(st.builds(Block, numbers, numbers)),
    some(st.builds(KernelRef, texts, texts)),
    some(st.builds(HostFunction, texts, some(st.none() | typed), some(typed))),
)


def test_the_random_programs_use_every_field() -> None:
    """A new field of a program must be serialized too."""
    counts = [
        len(fields(kind)) for kind in (TaskGraph, Binding, Instruction, Buffer, Task, Block, HostFunction)
    ]
    assert counts == [8, 3, 4, 5, 14, 2, 3]


@settings(max_examples=150, deadline=None)
@given(programs)
def test_programs_are_restored_from_json(program: TaskGraph) -> None:
    text = json.dumps(to_plain(program))
    again = from_plain(json.loads(text))
    assert again == program
    assert encode(again) == encode(program)
    assert json.dumps(to_plain(again)) == text


EXAMPLE = TaskGraph(
    inputs=(Binding("x", DTYPES["f32"], (0,)),),
    outputs=(Binding("y", DTYPES["bf16"], (0, 0)),),
    shape=(Instruction(Code.DIM, 0, 0, "note"),),
    buffers=(Buffer(Storage.ARENA, 0, 0, (0,), "b"),),
    tasks=(Task(TaskKind.LAUNCH, (Operand(0, 0), None, FunctionOperand(0)), (0,), 0, (0,), 0, name="n"),),
    blocks=(Block(0, 1),),
    kernels=(KernelRef("k", "generated"),),
    hosts=(HostFunction("Op", (None, (DTYPES["i64"], (0,))), ((DTYPES["bool"], ()),)),),
)


def places(plain: Any) -> Iterator[tuple[Any, ...]]:
    if isinstance(plain, dict | list):
        for key, item in plain.items() if isinstance(plain, dict) else enumerate(plain):
            yield (key,)
            yield from ((key, *rest) for rest in places(item))


WRONG = (None, -1, 2**70, 1.5, "", "x", [], [[]], {}, [1, 2, 3, 4, 5, 6])


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_malformed_programs_are_rejected(wrong: object) -> None:
    """Each part of a program is replaced in turn; the result is one of the documented errors or another valid
    program.
    """
    for place in places(to_plain(EXAMPLE)):
        plain = json.loads(json.dumps(to_plain(EXAMPLE)))
        holder = plain
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = wrong
        try:
            again = from_plain(plain)
        except (KeyError, TypeError, ValueError, IndexError):
            continue
        assert again == from_plain(json.loads(json.dumps(to_plain(again))))


@pytest.mark.parametrize("field", sorted(to_plain(EXAMPLE).keys() - {"profile"}))
def test_a_missing_part_is_an_error(field: str) -> None:
    plain = to_plain(EXAMPLE)
    del plain[field]
    with pytest.raises(KeyError, match=field):
        from_plain(plain)


def test_programs_without_what_profiles_say_are_read() -> None:
    """Packages of earlier versions have no data for profiles."""
    program = TaskGraph((), (), (), (), (Task(TaskKind.IF, name="a", ops="If", operations=3),), (), ())
    plain = to_plain(program)
    del plain["profile"]
    (task,) = from_plain(plain).tasks
    assert (task.name, task.ops, task.operations) == ("a", "", -1)
