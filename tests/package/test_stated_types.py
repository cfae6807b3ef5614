"""Types in the text of an untrusted package: those of inputs are used, all others are inferred again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import graphwright as gw
from graphwright.config import Options
from graphwright.ir.builtin.require import Require
from graphwright.ir.graph import Graph, Module, Node
from graphwright.ir.text import parse_module
from graphwright.ir.verify import verify
from graphwright.passes.retype import retype
from tests.package.damage import GRAPH, members_of, rebuilt
from tests.package.stated_types import BIAS, affine, branching


@pytest.fixture(scope="module")
def cut_package(options: Options) -> gw.Model:
    return gw.compile(branching(), options=options)


def values_of(graph: Graph) -> Iterator[tuple[str, str]]:
    """Names and types of all values, of inputs of regions as well."""
    yield from ((value.name, str(value.type)) for value in graph.inputs)
    for node in without_guards(graph):
        yield from ((value.name, str(value.type)) for value in node.outputs)
        for region in node.regions:
            yield from values_of(region)


def without_guards(graph: Graph) -> list[Node]:
    return [node for node in graph if not isinstance(node.op, Require)]


def guards(module: Module) -> set[str]:
    inside = {f"{n.op.left} == {n.op.right}" for n in module.walk() if isinstance(n.op, Require)}
    return inside | {str(constraint) for constraint in module.symbols.constraints}


def with_types(module: Module) -> Module:
    retype(module)
    return module


STATED = re.compile(r"(?<=[:,] )(?:f32|i64|bool|u8)\[[^\]]*\](?= from|, \w+\[|\)? \{|, %|\) \{)")


def lies(text: str) -> Iterator[tuple[str, str]]:
    """``text`` with one stated type changed, and what was made of it; the entry's inputs stay."""
    entry = text.index("\n", text.index("graph main("))
    for place in STATED.finditer(text, entry):
        dtype, dims = place[0].removesuffix("]").split("[")
        sizes = [size.strip() for size in re.split(r", (?![^(]*\))", dims)] if dims else []
        changed = [f"f64[{dims}]", f"{dtype}[7, {dims}]" if dims else f"{dtype}[7]"]
        for axis in range(len(sizes)):
            changed += [
                f"{dtype}[{', '.join([*sizes[:axis], new, *sizes[axis + 1 :]])}]" for new in ("5", "N")
            ]
        for new in changed:
            if new != place[0]:
                yield text[: place.start()] + new + text[place.end() :], f"{place[0]} -> {new}"


def test_types_stated_in_the_text_are_not_used(cut_package: gw.Model) -> None:
    package, parsed = cut_package.package, 0
    pool = parse_constants(cut_package)
    true = with_types(parse_module(package.main.graph, constants=pool.constants))
    expected = list(values_of(true.main))
    for text, what in lies(package.main.graph):
        parsed += 1
        module = parse_module(text, constants=pool.constants)
        try:
            verify(module)
            retype(module)
        except gw.GraphwrightError:
            continue
        for (name, found), (_, wanted) in zip(values_of(module.main), expected, strict=True):
            assert found == wanted, f"{what} makes %{name} {found} instead of {wanted}"
    assert parsed > 100


def parse_constants(model: gw.Model) -> Module:
    module = Module()
    for digest, array in model.package.constants().items():
        module.constants.restore(digest, array)
    return module


def test_types_that_are_true_change_nothing(cut_package: gw.Model) -> None:
    pool = parse_constants(cut_package)
    module = parse_module(cut_package.entry.graph, constants=pool.constants)
    before, known = list(values_of(module.main)), guards(module)
    assert list(values_of(with_types(module).main)) == before
    assert guards(module) == known


@pytest.fixture
def stranger(options: Options, tmp_path: Path) -> Options:
    """A user without a key, who shares the kernel cache."""
    return replace(options, key_dir=tmp_path / "stranger")


def changed(model: gw.Model, old: str, new: str, path: Path) -> Path:
    """The package of ``model``, unsigned, with another text of its graph."""
    model.save(path)
    text = members_of(path)[GRAPH].decode()
    found, count = re.subn(old, new, text)
    assert count
    return rebuilt(path, path, {GRAPH: found.encode()})


def test_an_output_of_fewer_rows_than_are_written_is_rejected(
    options: Options, stranger: Options, tmp_path: Path
) -> None:
    path = changed(
        gw.compile(affine(), options=options),
        r"f32\[N, 4\](?= from [^\n]*Add:y)",
        "f32[5, 4]",
        tmp_path / "evil.om",
    )
    model = gw.load(path, options=stranger)
    memory = np.zeros((64, 4), np.float32)
    with pytest.raises(gw.FeedError, match=r"(?s)must be 5, but is 40|N is 40.*N = 5 fits|N == 5.*40 and 5"):
        model.run({"x": np.ones((40, 4), np.float32)}, out={"y": memory[:5]})
    assert not memory.any()
    model.run({"x": np.ones((5, 4), np.float32)}, out={"y": memory[:5]})
    np.testing.assert_array_equal(memory[:5], np.tile(BIAS, (5, 1)))
    assert not memory[5:].any()


@pytest.mark.parametrize("size", ["4", "M"])
def test_a_stated_range_and_a_foreign_symbol_are_checked(
    options: Options, stranger: Options, tmp_path: Path, size: str
) -> None:
    """A range is checked against the shapes of a feed; a symbol that nothing defines is not a size of a
    value.
    """
    model = gw.compile(affine(), options=options)
    old, new = (r"symbol N\n", "symbol N in [4, 4]\n") if size == "4" else (r"f32\[N, 8\]", "f32[M, 8]")
    loaded = gw.load(changed(model, old, new, tmp_path / "evil.om"), options=stranger)
    np.testing.assert_array_equal(loaded(np.ones((4, 4), np.float32))[0], np.tile(BIAS, (4, 1)))
    if size == "4":
        with pytest.raises(gw.FeedError, match="4"):
            loaded(np.ones((40, 4), np.float32))
    else:
        np.testing.assert_array_equal(loaded(np.ones((40, 4), np.float32))[0], np.tile(BIAS, (40, 1)))
