"""Decisions: a code at every exit, bytes saved, their text, and that packages keep them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import graphwright as gw
from graphwright.errors import PackageError
from graphwright.fusion.decision_text import decode_decisions, encode_decisions
from graphwright.fusion.decisions import Decision, Edit, Kind, Verdict
from graphwright.ir.refusal import Code
from graphwright.ir.symbols import symbol

from .support import decided, module_of

X = "%x: f32[8, 16]"

CASES = {
    Code.MERGED: (X, '%a = Exp(%x): f32[8, 16] from "a"', '%b = Neg(%a): f32[8, 16] from "b"', "return %b"),
    Code.NO_LOOPS: (
        X,
        '%a = CumSum[axis=1](%x): f32[8, 16] from "a"',
        '%b = Neg(%a): f32[8, 16] from "b"',
        "return %b",
    ),
    Code.NO_CODE: (
        "%x: f32[8]",
        '%a = Cast[to=c64](%x): c64[8] from "a"',
        '%b = Cast[to=f32](%a): f32[8] from "b"',
        "return %b",
    ),
    Code.PROLOGUE: (
        f"{X}, %w: f32[16, 16]",
        '%a = Exp(%x): f32[8, 16] from "a"',
        '%b = MatMul(%a, %w): f32[8, 16] from "b"',
        "return %b",
    ),
    Code.TWO_CONTRACTIONS: (
        f"{X}, %z: f32[8, 16], %w: f32[16, 16]",
        '%c = MatMul(%x, %w): f32[8, 16] from "c"',
        '%a = MatMul(%z, %w): f32[8, 16] from "a"',
        '%d = Exp(%c): f32[8, 16] from "d"',
        '%e = Exp(%a): f32[8, 16] from "e"',
        '%b = Add(%d, %e): f32[8, 16] from "b"',
        "return %b",
    ),
    Code.SIBLING_WEIGHTS: (
        f"{X}, %w: f32[16, 16], %v: f32[16, 16]",
        '%c = MatMul(%x, %w): f32[8, 16] from "c"',
        '%a = MatMul(%x, %v): f32[8, 16] from "a"',
        '%b = Mul(%c, %a): f32[8, 16] from "b"',
        "return %b",
    ),
    Code.EPILOGUE_REDUCTION: (
        f"{X}, %w: f32[16, 16]",
        '%a = MatMul(%x, %w): f32[8, 16] from "a"',
        '%b = ReduceSum[axes=(1,)](%a): f32[8, 1] from "b"',
        "return %b",
    ),
    Code.EPILOGUE_SHAPE: (
        "%x: f32[16, 16], %w: f32[16, 16], %y: f32[4, 16, 16]",
        '%a = MatMul(%x, %w): f32[16, 16] from "a"',
        '%b = Add(%a, %y): f32[4, 16, 16] from "b"',
        "return %b",
    ),
    Code.REDUCED_AXES: (
        X,
        '%a = ReduceSum[axes=(1,)](%x): f32[8, 1] from "a"',
        '%c = Sub(%x, %a): f32[8, 16] from "c"',
        '%b = ReduceSum[axes=(0,)](%c): f32[1, 16] from "b"',
        "return %b",
    ),
    Code.RECOMPUTED_VALUE: (
        "%x: f32[16], %y: f32[8, 16]",
        '%a = Exp(%x): f32[16] from "a"',
        '%b = Add(%a, %y): f32[8, 16] from "b"',
        "return %b",
    ),
    Code.ROW_BEYOND_CACHE: (
        "%x: f32[2, 1000000]",
        '%a = ReduceSum[axes=(1,)](%x): f32[2, 1] from "a"',
        '%b = Sub(%x, %a): f32[2, 1000000] from "b"',
        "return %b",
    ),
    Code.ROW_FUNCTION: (
        "%x: f32[32, 128]",
        '%a = ReduceSum[axes=(1,)](%x): f32[32, 1] from "a"',
        '%b = Sigmoid(%a): f32[32, 1] from "b"',
        "return %b",
    ),
    Code.ROUNDED_IMAGE: (
        "%x: f32[1, 16, 8, 8], %w: f32[16, 16, 3, 3]",
        '%a = Conv(%x, %w): f32[1, 16, 6, 6] from "a"',
        '%b = Cast[to=f16](%a): f16[1, 16, 6, 6] from "b"',
        "return %b",
    ),
    Code.CYCLE: (
        "%x: f32[8, 16]",
        '%a = Exp(%x): f32[8, 16] from "a"',
        '%c = CumSum[axis=1](%a): f32[8, 16] from "c"',
        '%b = Add(%a, %c): f32[8, 16] from "b"',
        "return %b",
    ),
    Code.LAST_VIEW: (
        X,
        '%a = Exp(%x): f32[8, 16] from "a"',
        '%b = Reshape[shape=(128,)](%a): f32[128] from "b"',
        "return %b",
    ),
}  # fmt: skip


@pytest.mark.parametrize("code", CASES, ids=lambda code: code.value)
def test_each_exit_has_its_code(code: Code) -> None:
    head, *lines = CASES[code]
    decisions = decided(module_of(head, *lines))
    found = [each for (*_, last), each in decisions.items() if last == "b"]
    assert code in [each.code for each in found]
    for each in found:
        assert (each.verdict is Verdict.TAKEN) == (each.code is Code.MERGED)
        assert each.why


@pytest.mark.parametrize(
    ("rows", "columns", "tail"),
    [
        (8, 128, ""),  # a launch costs more
        (32, 4, ""),  # each lane reduces a row of its own
        (32, 128, '%c = Mul(%x, %b): f32[32, 128] from "c"'),  # each element of a row reads it
        (32, 128, '%c, %d = Split[parts=2, axis=0, sizes=(16, 16)](%b): f32[16, 1], f32[16, 1] from "c"'),
    ],
    ids=("few rows", "short rows", "read by rows", "read by a node with two results"),
)
def test_functions_of_one_value_per_row_that_stay(rows: int, columns: int, tail: str) -> None:
    module = module_of(
        f"%x: f32[{rows}, {columns}]",
        f'%a = ReduceSum[axes=(1,)](%x): f32[{rows}, 1] from "a"',
        f'%b = Sigmoid(%a): f32[{rows}, 1] from "b"',
        *([tail] if tail else []),
        f"return {'%c' if tail else '%b'}",
    )
    assert decided(module)["a", "b"].code is Code.MERGED


def test_codes_are_unique_and_have_a_description() -> None:
    texts = [code.value for code in Code]
    assert len({*texts}) == len(texts)
    assert all(re.fullmatch(r"FUSE_[A-Z]+(_[A-Z]+)*", text) for text in texts)
    assert all(code.means and not code.means.endswith(".") for code in Code)


def test_bytes_that_a_merge_saves() -> None:
    """A merge saves one write and one read of 8 * 16 elements, or one read if the value is stored anyway or
    read twice.
    """
    head, *lines = CASES[Code.MERGED]
    assert decided(module_of(head, *lines))["a", "b"].bytes_saved == 2 * 512
    kept = decided(module_of(head, *lines[:-1], "return %a, %b"))
    assert kept["a", "b"].bytes_saved == 512
    shared = decided(module_of(head, lines[0], '%b = Add(%a, %x): f32[8, 16] from "b"', "return %b"))
    assert shared["a", "b"].bytes_saved == 3 * 512
    row = decided(module_of(*CASES[Code.ROW_BEYOND_CACHE]))
    assert row["a", "b"].bytes_saved == 2 * 8 + 2 * 4_000_000


def test_dynamic_sizes_stay_in_the_bytes() -> None:
    module = module_of(
        "%x: f32[N, 16]",
        '%a = Exp(%x): f32[N, 16] from "a"',
        '%b = Neg(%a): f32[N, 16] from "b"',
        "return %b",
    )
    assert decided(module)["a", "b"].bytes_saved == 128 * symbol("N")


def test_decisions_survive_their_text() -> None:
    some = [
        Decision(
            Edit(Kind.MERGE, ("a + é", "b")), Verdict.TAKEN, Code.MERGED, "rule x", 12, -0.5, None,
            (("a", "é"), ()),
        ),
        Decision(Edit(Kind.REPLACE, ("b",)), Verdict.REFUSED, Code.ATTENTION_AXIS, "why", sources=((),)),
    ]  # fmt: skip
    text = encode_decisions(some)
    assert decode_decisions(text) == some
    assert encode_decisions([]) == "" and decode_decisions("") == []


def test_attention_that_was_recognized_is_a_decision() -> None:
    b = gw.GraphBuilder()
    q, k, v = (b.input(name, np.float32, (1, 2, 8, 16)) for name in "qkv")
    scores = b.matmul(q, b.transpose(k, perm=(0, 1, 3, 2)))
    b.output("y", b.matmul(b.softmax(scores), v))
    found = decode_decisions(gw.compile(b.build()).package.main.decisions)
    replaced = [each for each in found if each.code is Code.REPLACED]
    assert [(each.edit.kind, each.verdict, each.why) for each in replaced] == [
        (Kind.REPLACE, Verdict.TAKEN, "rule attention")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", "{}", '{"nodes": [], "reasons": [], "decisions": [[[0], 0]]}',
        '{"nodes": ["a"], "reasons": [["merge", "taken", "FUSE_NONSENSE", ""]], "decisions": [[[0], 0]]}',
        '{"nodes": ["a"], "reasons": [["merge", "taken"]], "decisions": [[[0], 0, 1, 2, 3, 4, 5]]}',
        '{"nodes": [1], "reasons": [], "decisions": []}', "[" * 100_000,
        *(
            f'{{"nodes": ["a"], "reasons": [["merge", "taken", "FUSE_MERGED", ""]], "decisions": [{row}]}}'
            for row in (
                "[[], 0]", "[[0], 0, [1]]", "[[0], 0, 1.5]", "[[0], 0, true]", f"[[0], 0, {10**30}]",
                "[[0], 0, NaN]", '[[0], 0, 1, "x"]', "[[0], 0, 1, null, [1]]", "7",
            )
        ),
    ],
)  # fmt: skip
def test_damaged_decisions_are_one_error(text: str) -> None:
    with pytest.raises(PackageError, match="its decisions cannot be read"):
        decode_decisions(text)


def test_packages_keep_decisions_with_the_same_bytes(tmp_path: Path) -> None:
    def saved(name: str) -> bytes:
        b = gw.GraphBuilder()
        x = b.input("x", np.float32, ("N", 16))
        b.output("y", b.softmax(b.relu(b.matmul(x, np.ones((16, 16), np.float32)))))
        model = gw.compile(b.build())
        model.save(tmp_path / name)
        return model.package.main.decisions.encode()

    text = saved("a.om")
    assert saved("b.om") == text
    assert (tmp_path / "a.om").read_bytes() == (tmp_path / "b.om").read_bytes()
    decisions = decode_decisions(gw.load(tmp_path / "a.om").package.main.decisions)
    assert {each.code for each in decisions} == {Code.MERGED, Code.EPILOGUE_REDUCTION}
    assert json.loads(text)["decisions"]
