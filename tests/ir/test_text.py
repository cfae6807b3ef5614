"""Modules as text: parse(print(m)) is m, the text is safe, bad text is refused where it is bad."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from graphwright.errors import ModelError
from graphwright.ir.constants.pool import ConstantPool
from graphwright.ir.graph import Module, Role, Signature
from graphwright.ir.symbols import Range, floordiv, symbol
from graphwright.ir.text import parse_module, print_graph, print_module, print_node, structurally_equal
from graphwright.ir.text.quoting import quote, unquote
from graphwright.ir.types import F32, I64, tensor

from .support import BF16_ARRAY, Mode, ToyAdd, ToyBag, ToyBranch, ToyScale, Window, arrays, builder, modules


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(modules())
def test_parse_is_the_inverse_of_print(module: Module) -> None:
    text = print_module(module)
    again = parse_module(text)
    assert structurally_equal(module, again) is None
    assert print_module(again) == text


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(modules())
def test_short_text_is_read_back_with_its_constants(module: Module) -> None:
    again = parse_module(print_module(module, constants="short"), constants=module.constants)
    assert structurally_equal(module, again) is None


@settings(max_examples=100, deadline=None)
@given(arrays())
def test_constants_keep_every_bit(array: np.ndarray) -> None:
    module = Module()
    ref = module.constants.add(array)
    again = parse_module(print_module(module))
    assert [r.digest for r in again.constants] == [ref.digest]
    read = again.constants[ref]
    assert (read.dtype, read.shape) == (array.dtype, array.shape)
    if array.dtype != object:
        assert read.tobytes() == array.tobytes()


@settings(max_examples=200, deadline=None)
@given(st.text())
@example("\x1b[31m\u202egnp.exe")
@example("\ud800 lone surrogate")
def test_quoted_text_is_safe_and_comes_back(text: str) -> None:
    quoted = quote(text)
    assert unquote(quoted) == text
    assert quoted.isprintable()


def small() -> Module:
    module = Module()
    n = symbol("N")
    module.symbols.ranges["N"] = Range(1, 64)
    module.symbols.multiples["N"] = 4
    b, (x,) = builder(module, x=tensor(F32, n, 3))
    bias = b.const(np.array([0.5, -0.0, 3.0], np.float32))
    b.sources = ("Add_0", "Add_1")
    y = b(ToyAdd(), x, bias)
    y.name = "y"
    b.sources = ()
    z = b(ToyScale(2.0), y, None, name="twice")
    b.graph.set_outputs([z], ["result"])
    module.symbols.demand("==", 2 * floordiv(n + 31, 32), floordiv(n, 16), "Add_0")
    module.symbols.assumable = None
    module.symbols.assume("!=", n, 1, "Squeeze_0")
    module.signatures["main"] = Signature((Role.DATA,))
    module.metadata["alphabet"] = 'a"b'
    return module


def test_the_text_of_a_small_module() -> None:
    digest = next(iter(small().constants)).digest[:6]
    assert print_module(small()) == (
        "module {\n"
        '  metadata "alphabet" = "a\\"b"\n'
        "  symbol N in [1, 64] multiple of 4\n"
        '  constraint 2*floordiv(N + 31, 32) == floordiv(N, 16) at "Add_0"\n'
        '  guard N != 1 at "Squeeze_0"\n'
        f"  constant #{digest}: f32[3] = [0.5, -0.0, 3.0]\n"
        "  signature main(data)\n"
        "  graph main(%x: f32[N, 3]) {\n"
        f"    %0 = Constant[value=#{digest}]: f32[3]\n"
        '    %y = ToyAdd(%x, %0): f32[N, 3] from "Add_0", "Add_1"\n'
        '    %1 = ToyScale[factor=2.0](%y, _): f32[N, 3] name "twice"\n'
        '    return %1 as "result"\n'
        "  }\n"
        "}\n"
    )


def test_attributes_of_every_kind() -> None:
    module = Module()
    b, _ = builder(module)
    bag = ToyBag(
        (1, -2.5, float("inf"), "q"), (F32, tensor(I64, symbol("N"))), symbol("inf"), d=True, e=Mode.CUBIC
    )
    b(bag)
    b(ToyBag(window=Window(3, Mode.CUBIC), b=(1,)))
    lines = print_graph(b.graph).splitlines()
    assert lines[1].strip() == (
        '%0 = ToyBag[a=(1, -2.5, inf, "q"), b=(f32, i64[N]), c=dim(inf), d=True, e=Mode.CUBIC]: f32[]'
    )
    assert lines[2].strip() == "%1 = ToyBag[b=(1,), window=Window(size=3, mode=Mode.CUBIC)]: f32[]"
    assert structurally_equal(module, parse_module(print_module(module))) is None


def test_large_constants_are_elided_in_short_text() -> None:
    module = Module()
    module.constants.add(np.arange(100, dtype=np.float32))
    module.constants.add(np.zeros(100, np.float32))
    module.constants.add(BF16_ARRAY)
    short = print_module(module, constants="short")
    assert "f32[100] = ..." in short
    assert "f32[100] = splat 0.0" in short
    assert "bf16[2] = [1.5, -0.0]" in short
    with pytest.raises(ModelError, match="left out"):
        parse_module(short)
    with pytest.raises(ModelError, match="0 of the passed constants"):
        parse_module(short, constants=ConstantPool())


def test_regions_are_indented_blocks() -> None:
    module = Module()
    b, (x,) = builder(module, x=tensor(F32, 2))
    regions = []
    for name in ("then", "else"):
        inner, (p,) = builder(Module(), name, p=tensor(F32, 2))
        inner.graph.set_outputs([inner(ToyScale(3.0), p)])
        regions.append(inner.graph)
    b.graph.set_outputs([b(ToyBranch(), x, regions=regions)])
    assert print_graph(b.graph) == (
        "graph main(%x: f32[2]) {\n"
        "  %0 = ToyBranch(%x): f32[2] {\n"
        "    then(%p: f32[2]) {\n"
        "      %0 = ToyScale[factor=3.0](%p): f32[2]\n"
        "      return %0\n"
        "    }\n"
        "    else(%p: f32[2]) {\n"
        "      %0 = ToyScale[factor=3.0](%p): f32[2]\n"
        "      return %0\n"
        "    }\n"
        "  }\n"
        "  return %0\n"
        "}\n"
    )
    assert print_node(next(iter(b.graph))) == "%0 = ToyBranch(%x): f32[2] {"
    assert structurally_equal(module, parse_module(print_module(module))) is None


GRAPH = "module {{ graph main(%x: f32[2]) {{ {} return %x }} }}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("modul {}", "expected 'module'"),
        ("module {", "ends too early|expected one of"),
        ("module { graph main(%x: f99[2]) { return } }", "is not a type"),
        ("module { constant #a: f32[2] = [1.0] }", "reshape"),
        ("module { constant #a: f32[N] = [1.0] }", "shape of numbers"),
        ("module { constant #a: i8[1] = [300] }", "300|bounds"),
        ('module { constant #a: f32[2] = base64 "AAA" }', "base64"),
        ("module { constant #a: f32[1000000, 1000000] = splat 0.0 }", "too large for a splat"),
        ("module { constant #a: f32[1] = [1.0] constant #a: f32[1] = [2.0] }", "declared twice"),
        ("module { symbol N in [1 64] }", "expected ','"),
        (GRAPH.format("%y = Nonesuch(%x): f32[2]"), "no op is called Nonesuch"),
        (GRAPH.format("%y = ToyScale[nope=1](%x): f32[2]"), "nope"),
        (GRAPH.format("%y = ToyScale(%z): f32[2]"), "%z is used before it is defined"),
        (GRAPH.format("%x = ToyScale(%x): f32[2]"), "defined twice"),
        (GRAPH.format("%y = ToyBag[e=Mode.NONE](%x): f32[]"), "not an enum with a member NONE"),
        (GRAPH.format("%y = ToyBag[a=Path()](%x): f32[]"), "has no class Path"),
        (GRAPH.format("%y = ToyBag[a=ToyAdd()](%x): f32[]"), "not a dataclass of attributes"),
        (GRAPH.format("%y = ToyBag[a=#w](%x): f32[]"), "no constant is called #w"),
        (GRAPH.format("%y = ToyBag[a=" + "(" * 5000 + "](%x): f32[]"), "nested too deeply"),
        ("module { } }", "after the module's end"),
        ("module { \x00 }", "not allowed here"),
    ],
)
def test_bad_text_is_rejected_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        parse_module(text)
    assert caught.value.diagnostics[0].where == "line 1"
    assert "^" in str(caught.value)


def test_the_caret_stands_under_the_fault() -> None:
    with pytest.raises(ModelError) as caught:
        parse_module("module {\n  graph main(%x: f32[2]) {\n    return %y\n  }\n}")
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("line 3: %y is used")
    assert lines[2].index("^") == lines[1].index("%y")


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(modules(), st.data())
def test_damaged_text_raises_nothing_but_model_errors(module: Module, data: st.DataObject) -> None:
    text = print_module(module)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 20)))
    damaged = text[:start] + data.draw(st.text(max_size=5)) + text[end:]
    try:
        parse_module(damaged)
    except ModelError as error:
        assert error.diagnostics[0].code == "text"


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (lambda m: m.metadata.clear(), "metadata"),
        (lambda m: m.symbols.multiples.clear(), "divisor of symbol 'N'"),
        (lambda m: m.symbols.ranges.clear(), "range of symbol 'N'"),
        (lambda m: m.symbols.constraints.clear(), "constraints"),
        (lambda m: m.symbols.guards.clear(), "guards"),
        (lambda m: m.signatures.clear(), "signature 'main'"),
        (lambda m: m.main.set_outputs(m.main.outputs, ["other"]), "outputs of main"),
        (lambda m: setattr(m.main.inputs[0], "name", "z"), "inputs of main: name"),
        (lambda m: setattr(list(m.main)[2], "op", ToyScale(3.0)), "ops ToyScale"),
        (lambda m: setattr(list(m.main)[1], "sources", ()), "names"),
        (lambda m: m.main.replace_input(list(m.main)[2], 0, m.main.inputs[0]), "operands"),
        (lambda m: m.constants.add(np.ones(3)), "constants"),
    ],
)
def test_structural_comparison_names_the_first_difference(change: object, difference: str) -> None:
    other = small()
    change(other)  # type: ignore[operator]
    found = structurally_equal(small(), other)
    assert found is not None
    assert difference in found
