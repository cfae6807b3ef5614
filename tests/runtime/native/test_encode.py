"""Encoded programs: decoding inverts encoding, and corrupt words are rejected without a crash."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright import _native
from graphwright.ir.types import BOOL, F32
from graphwright.low_ir.tasks import (
    Block,
    Code,
    HostFunction,
    Instruction,
    Operand,
    Storage,
    Task,
    TaskGraph,
    TaskKind,
)
from graphwright.low_ir.wire import MAGIC, VERSION
from tests.low_ir.words import encode
from tests.runtime.native.everything import everything
from tests.runtime.native.handmade import Builder, affine_chain, load

REPLACEMENTS = (
    -(2**63),
    -(2**31),
    -3,
    -2,
    -1,
    0,
    1,
    2,
    3,
    7,
    8,
    64,
    1000,
    2**31,
    2**32 + 1,
    2**62,
    2**63 - 1,
)


def attempt(words: bytes, library: _native.Library) -> bool:
    """Decode and run, with kernels that touch nothing; False if the runtime refuses."""
    harmless = [library.symbol("idle")] * len(everything().kernels)
    x = np.arange(10, dtype=np.float32)
    try:
        for condition in range(2):
            weights = bytes((condition, *range(7), 2, *bytes(7)))
            model = _native.Program(
                words, weights, harmless, [lambda inputs, outputs: None], libraries=[library]
            )
            if model.plan([x.shape], threads=2)["arena"] < 1 << 24:
                model.run([x], threads=2, poison=True)
    except (_native.NativeError, ValueError, MemoryError):
        return False
    return True


def test_words_of_an_encoded_program() -> None:
    words = struct.unpack("<19q", encode(small())[: 19 * 8])
    assert words[:10] == (MAGIC, VERSION, 1, 1, 3, 2, 1, 1, 1, 0)
    assert words[10:13] == (4, 1, 0)  # input: element size, dims
    assert words[13:16] == (4, 1, 0)  # output
    assert words[16:19] == (Code.DIM, 0, 0)


def small() -> TaskGraph:
    program = affine_chain(1)
    return TaskGraph(
        program.inputs,
        program.outputs,
        (*program.shape[:1], Instruction(Code.CONST, 4), Instruction(Code.MUL, 0, 1)),
        program.buffers[:2],
        program.tasks,
        program.blocks,
        program.kernels,
    )


def test_an_unchanged_program_is_valid(library: _native.Library) -> None:
    assert attempt(encode(everything()), library)


def test_each_word_replaced_is_accepted_or_rejected(library: _native.Library) -> None:
    words = encode(everything())
    assert len(words) % 8 == 0
    accepted = 0
    for at in range(0, len(words), 8):
        old = struct.unpack_from("<q", words, at)[0]
        for new in {*REPLACEMENTS, old + 1 if old < 2**62 else 0, old - 1 if old > -(2**62) else 0}:
            accepted += attempt(words[:at] + struct.pack("<q", new) + words[at + 8 :], library)
    assert accepted > 0


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_random_damage_is_accepted_or_rejected(library: _native.Library, data: st.DataObject) -> None:
    words = list(struct.unpack(f"<{len(encode(everything())) // 8}q", encode(everything())))
    for _ in range(data.draw(st.integers(1, 5))):
        words[data.draw(st.integers(0, len(words) - 1))] = data.draw(
            st.one_of(st.integers(-3, 40), st.integers(-(2**63), 2**63 - 1))
        )
    attempt(struct.pack(f"<{len(words)}q", *words), library)


def test_each_prefix_is_rejected(library: _native.Library) -> None:
    words = encode(everything())
    assert not any(attempt(words[:size], library) for size in range(len(words)))
    assert not attempt(words + bytes(8), library)


def refused(change: Callable[[Builder], object], text: str, library: _native.Library) -> None:
    b = Builder()
    b.input(1)
    change(b)
    with pytest.raises(_native.ProgramError, match=text):
        load(b.program(), library, hosts=[print] * len(b.hosts))


def _if(b: Builder, blocks: tuple[int, ...]) -> int:
    return b.task(TaskKind.IF, [b.at(0)], blocks=blocks)


def _loop(
    b: Builder, operands: tuple[int | None, ...], blocks: tuple[int, ...] = (1,), **fields: Any
) -> None:
    """A LOOP that writes operand 0, and its body."""
    b.tasks.append(
        Task(
            TaskKind.LOOP,
            tuple(None if o is None else b.at(o) for o in operands),
            fields.pop("writes", (0,)),
            blocks=blocks,
            **fields,
        )
    )
    b.blocks = _blocks((0, 1), (1, 0))


def test_loops_that_are_malformed_are_rejected(library: _native.Library) -> None:
    cases: list[tuple[Callable[[Builder], object], str]] = [
        (lambda b: _loop(b, (b.arena(0), None), args=(0,)), "three operands"),
        (lambda b: _loop(b, (b.arena(0), None, None), args=(0, 0)), "three operands"),
        (lambda b: _loop(b, (b.arena(0), None, None), args=(0,), blocks=()), "three operands"),
        (lambda b: _loop(b, (0, None, None), args=(0,)), "not an output, a state"),
        (lambda b: _loop(b, (b.arena(0), None, None), args=(0,), writes=()), "its iteration number"),
        (lambda b: _loop(b, (b.arena(0), None, None)), "neither a limit nor a condition"),
        (lambda b: _if(b, ()), "an IF takes two blocks"),
        (lambda b: b.task(TaskKind.COPY, [b.at(b.arena(0))] * 4, [0], args=(0,)), "two or three operands"),
    ]
    for change, text in cases:
        refused(change, text, library)


def _blocks(*blocks: tuple[int, int]) -> list[Block]:
    return [Block(first, count) for first, count in blocks]


def test_inconsistent_programs_are_rejected(library: _native.Library) -> None:
    def host(b: Builder, operands: tuple[Operand | None, ...], writes: tuple[int, ...]) -> None:
        b.hosts.append(HostFunction("f", ((F32, ()),), ((F32, ()),)))
        b.tasks.append(Task(TaskKind.HOSTCALL, operands, writes, kernel=0))

    def tree(*blocks: tuple[int, int], ifs: tuple[tuple[int, int], ...]) -> Callable[[Builder], None]:
        def add(b: Builder) -> None:
            for branches in ifs:
                _if(b, branches)
            b.blocks = _blocks(*blocks)

        return add

    zero = 0
    cases: list[tuple[Callable[[Builder], object], str]] = [
        (lambda b: b.register(Code.ADD, 0, len(b.shape)), "before it is defined"),
        (lambda b: b.register(Code.DIM, 1, 0), "no input"),
        (lambda b: b.register(Code.DIM, 0, 1), "no axis"),
        (lambda b: b.arena(b.const(1), [1]), "a later buffer"),
        (lambda b: b.arena(b.const(1), [0]), "outside the arena"),
        (lambda b: b.buffer(Storage.OUTPUT, zero, 0), "refers to no output"),
        (lambda b: b.launch("add", [0], [0], zero), "not an output, a state"),
        (lambda b: b.launch("add", [b.buffer(Storage.SCRATCH, zero)], [], zero), "is in scratch memory"),
        (lambda b: b.launch("add", [], [], zero, scratch=0), "is not in scratch memory"),
        (lambda b: b.launch("add", [], [], -1), "no grid"),
        (lambda b: b.launch("add", [], [], zero, after=[0]), "a later task"),
        (lambda b: _if(b, (1, 1)), "refers to no block"),
        (lambda b: _loop(b, (b.arena(zero), None, 0), blocks=(2,)), "refers to no block"),
        (lambda b: host(b, (b.at(0), b.at(0)), ()), "does not write one of its outputs"),
        (lambda b: host(b, (b.at(0),), ()), "different numbers of operands"),
        (lambda b: host(b, (None, b.at(b.arena(zero))), (1,)), "present and absent"),
        (lambda b: b.tasks.append(Task(TaskKind.HOSTCALL, kernel=0)), "refers to no function"),
        (tree((0, 1), (1, 0), ifs=((1, 1),)), "belongs to two tasks"),
        (tree((0, 1), (1, 0), (1, 0), (1, 0), ifs=((1, 2),)), "not reachable"),
        (tree((0, 0), (0, 1), (1, 0), ifs=((1, 2),)), "not reachable"),
        (tree((0, 1), (0, 1), (1, 0), ifs=((1, 2),)), "in two blocks"),
        (tree((0, 1), (1, 0), (1, 0), ifs=((1, 2), (1, 2))), "in no block"),
        (tree((0, 2), ifs=()), "ends past the last task"),
    ]
    for change, text in cases:
        refused(change, text, library)


def test_blocks_nested_too_deep_are_rejected(library: _native.Library) -> None:
    def nest(depth: int) -> Builder:
        b = Builder()
        b.input(1, BOOL)
        for level in range(depth):
            _if(b, (2 * level + 1, 2 * level + 2))
        b.blocks = [Block(0, 1)]
        for level in range(1, depth + 1):
            b.blocks += [Block(level, 1 if level < depth else 0), Block(0, 0)]
        return b

    load(nest(570).program(), library).run([np.array([True])], threads=2)
    with pytest.raises(_native.ProgramError, match="too deep"):
        load(nest(580).program(), library)


def test_after_edges_stay_in_their_block(library: _native.Library) -> None:
    def add(b: Builder) -> None:
        _if(b, (1, 2))
        b.launch("add", [], [], 0, after=[0])
        b.blocks = _blocks((0, 1), (1, 1), (2, 0))

    refused(add, "another block", library)


def test_kernels_and_hosts_must_be_given(library: _native.Library) -> None:
    words = encode(everything())
    with pytest.raises(ValueError, match="number of kernels"):
        _native.Program(words, b"", [])
    kernel = library.symbol("add")
    with pytest.raises(ValueError, match="host functions"):
        _native.Program(words, b"", [kernel] * len(everything().kernels))
    with pytest.raises(ValueError, match="null"):
        _native.Program(words, b"", [0] * len(everything().kernels))
