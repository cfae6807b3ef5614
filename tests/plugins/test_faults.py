"""Plugins that fail while a model is compiled or run: one error each, with the file and line at fault."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
import pytest

import graphwright as gw
from graphwright.ir.op import Inference, Op, op, op_class
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Launch
from graphwright.targets.cpu.target import CpuTarget
from graphwright.targets.cpu.user_code import CSource
from tests.tools.support import graphwright

from .support import node, node_model, numbers

HEAD = """\
import numpy as np
from graphwright.plugins import *

@op("Mine")
class Mine(Op):
"""
INFER = "    def infer(self, at, x):\n        return x.type\n"
REFERENCE = "    def reference(self, x):\n        return x + 1\n"
ONNX = '    onnx = {("Mine", 1, "example"): lambda i: i.emit(Mine(), i.input(0))}\n'
MODEL = node_model(node("Mine"))
RELU = onnx.helper.make_node("Relu", ["x"], ["y"])


def load(*parts: str) -> None:
    """The plugin ``mine.py`` of these parts."""
    Path("mine.py").write_text("".join(parts))
    gw.plugins.load("mine.py")


def failure(*parts: str, device: str = "cpu") -> str:
    """The only diagnostic of compiling and running a model with that plugin."""
    load(*parts)
    with pytest.raises(gw.GraphwrightError) as caught:
        gw.compile(MODEL, options=gw.CompileOptions(device=device))(numbers(4, 5))
    (fault,) = caught.value.diagnostics
    return str(fault)


# -- ops --------------------------------------------------------------------------------------------------

OPS = {
    "mine.py:7: Mine.infer raised ZeroDivisionError: division by zero (node Mine:y)": (
        "    def infer(self, at, x):\n        return 1 / 0\n",
        REFERENCE,
    ),
    "mine.py:6: Mine.infer returned NoneType instead of a TensorType for each of 1 outputs": (
        "    def infer(self, at, x):\n        pass\n",
        REFERENCE,
    ),
    "Mine does not implement infer": (REFERENCE,),
    "Mine: no such luck": ('    def infer(self, at, x):\n        raise at.fail("no such luck")\n', REFERENCE),
    "mine.py:9: Mine.reference raised AttributeError": (
        INFER,
        "    def reference(self, x):\n        return x.nothing\n",
    ),
    "mine.py:8: Mine.reference returned f64[4, 5] for output 0, but infer gives f32[": (
        INFER,
        "    def reference(self, x):\n        return x.astype(np.float64)\n",
    ),
    "mine.py:8: Mine.reference returned f32[4] for output 0, but infer gives f32[": (
        INFER,
        "    def reference(self, x):\n        return x[:, 0]\n",
    ),
    "mine.py:8: Mine.reference returned 2 results for 1 outputs": (
        INFER,
        "    def reference(self, x):\n        return x, x\n",
    ),
    "Mine has no reference": (INFER,),
}


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("message", OPS)
def test_an_op_that_fails(message: str, device: str) -> None:
    assert message in failure(HEAD, *OPS[message], ONNX, device=device)


PARTS = {
    "mine.py:8: Mine.expression returned float instead of a Scalar": (
        "expression(self, x):\n        return 1.0\n"
    ),
    "mine.py:9: Mine.expression raised KeyError: 'sinus'": (
        "expression(self, x):\n        return apply('sinus', x)\n"
    ),
    "mine.py:9: Mine.decompose raised ZeroDivisionError": "decompose(self, b, x):\n        return 1 / 0\n",
    "mine.py:8: Mine.decompose returned 3 instead of a value for each output": (
        "decompose(self, b, x):\n        return 3\n"
    ),
    "mine.py:8: Mine.decompose returned f64[2] instead of f32[N, M]": (
        "decompose(self, b, x):\n        return b.const(np.zeros(2))\n"
    ),
}


@pytest.mark.parametrize("message", PARTS)
def test_an_expression_or_decomposition_that_fails(message: str) -> None:
    assert message in failure(HEAD, INFER, f"    def {PARTS[message]}", REFERENCE, ONNX)


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ("1 / 0", "Mine:y: cannot be read (ZeroDivisionError: division by zero)"),
        ("1 / 0", "mine.py:10"),
        ("3", "mine.py:10: importing Mine returned int: return the result of i.emit(...)"),
        ("i.emit(Mine(), i.input(7))", "Mine: input 7 is missing"),
        ("i.emit(Mine(), i.required_attr('axis'))", "attribute 'axis' is missing"),
    ],
)
def test_an_import_that_fails(mapping: str, message: str) -> None:
    onnx_table = f'    onnx = {{("Mine", 1, "example"): lambda i: {mapping}}}\n'
    assert message in failure(HEAD, INFER, REFERENCE, onnx_table)


@pytest.mark.parametrize("value", ["[1, 2]", "np.ones(3)", "{}", "abs"])
def test_attributes_that_no_file_can_hold_are_rejected(value: str) -> None:
    onnx_table = f'    onnx = {{("Mine", 1, "example"): lambda i: i.emit(Mine({value}), i.input(0))}}\n'
    shown = failure(HEAD, "    value: object = 1\n", INFER, REFERENCE, onnx_table)
    assert "Mine: " in shown and "attributes must be numbers, strings" in shown


# -- kernels ----------------------------------------------------------------------------------------------

SIGNATURE = "int32_t k(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch)"
CANDIDATE = """
SOURCE = CSource.inside(__file__, '''
{body}
''')

@candidate(Mine)
def kernel(node, context):
    x, y = node.operand(0), node.output
    return {launch}
"""
LAUNCH = "Launch(context.c_function(SOURCE, 'k'), (x, y), (1,), (), x.type.elements)"
GOOD = f"{SIGNATURE} {{ return 0; }}"
C = {
    "mine.py:14: ": f"{SIGNATURE} {{\n    return nothing;\n}}",
    "mine.py:13: ": "int32_t k(void) { return 0; }",
    "mine.py: it does not export the function k": "static int unused;",
    "mine.py: it cannot be loaded: ": f"int elsewhere(void); {SIGNATURE} {{ return elsewhere(); }}",
    "Mine:y: kernel k of plugin_mine.c returned 3": f"{SIGNATURE} {{ return 3; }}",
    "mine.py:13:": '#include "absent.h"\n',
}


@pytest.mark.parametrize("message", C)
def test_an_error_in_c_shows_the_line_of_the_python_file(
    message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error shows the line of the Python file and its text; no files are left behind."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    parts = (HEAD, INFER, REFERENCE, ONNX, CANDIDATE.format(body=C[message], launch=LAUNCH))
    shown = failure(*parts)
    assert message in shown
    assert list(folder.iterdir()) == []
    if message == "mine.py:14: ":
        assert "14 | return nothing;" in shown and "plugin-source" in shown


def test_c_in_a_file_of_its_own_is_shown_by_its_own_lines() -> None:
    Path("kernel.c").write_text(f"/* µ is no ASCII */\n{SIGNATURE} {{\n    return nothing;\n}}\n")
    text = CANDIDATE.format(body="", launch=LAUNCH)
    text = text.replace("CSource.inside(__file__, '''\n\n''')", "CSource.read('kernel.c')")
    shown = failure(HEAD, INFER, REFERENCE, ONNX, text)
    assert shown.startswith("kernel.c:3: ") and "3 | return nothing;" in shown


LAUNCHES = {
    "returned NoneType instead of a Launch": "None",
    "raised ZeroDivisionError": "1 / 0",
    "no launch writes output 0": "Launch(context.c_function(SOURCE, 'k'), (x,), (), (), 1)",
    "operand 1 is an output, but its position is not in writes": LAUNCH.replace("(1,)", "()"),
    "writes names operand 2, but there are 2 operands": LAUNCH.replace("(1,)", "(1, 2)"),
    "writes names an operand that is not an output": LAUNCH.replace("(1,)", "(0, 1)"),
    "operand 0 is neither an input nor an output": LAUNCH.replace("(x, y)", "(type(x)(x.type), y)"),
    "operand 0 is int, not a value": LAUNCH.replace("(x, y)", "(3, y)"),
    "grid depends on Q, which is not a size": LAUNCH.replace("x.type.elements", "symbol('Q')"),
    "grid is -1": LAUNCH.replace("x.type.elements", "-1"),
    "args[0] is 2.5, not an integer or a size": LAUNCH.replace("(), x", "(2.5,), x"),
    "scratch is 'big', not an integer": LAUNCH.replace("elements)", "elements, scratch='big')"),
    "'k.k' is not a valid name of a C function": LAUNCH.replace("'k'", "'k.k'"),
    "'k' is not a kernel: context.c_function": LAUNCH.replace("context.c_function(SOURCE, 'k')", "'k'"),
}


@pytest.mark.parametrize("message", LAUNCHES)
def test_invalid_launches_are_rejected(message: str) -> None:
    text = CANDIDATE.format(body=GOOD, launch=LAUNCHES[message])
    assert message in failure(HEAD, INFER, REFERENCE, ONNX, text)


def test_an_error_of_the_context_is_a_reason_against_the_candidate() -> None:
    """The op then runs on its reference, as if the candidate had returned a reason."""
    refused = "context.generate(Refused(), '')"
    head = "class Refused:\n    pass\n\n" + HEAD
    load(head, INFER, REFERENCE, ONNX, CANDIDATE.format(body=GOOD, launch=refused))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CpuTarget, "kernel_refusal", lambda self, kernel: "no kernels of this kind here")
        model = gw.compile(MODEL)
    x = numbers(4, 5)
    np.testing.assert_array_equal(model(x)[0], x + 1)
    assert "no kernels of this kind here" in model.report()


def test_several_sources_that_do_not_compile_are_all_shown() -> None:
    for name in ("First", "Second"):
        cls = op(name)(type(name, (_Copied,), {"__module__": __name__}))
        source = CSource(f"{SIGNATURE} {{ return {name}; }}", f"{name}.c")

        @candidate(cls)
        def kernel(node, context, source=source):  # type: ignore[no-untyped-def]
            x, y = node.operand(0), node.output
            return Launch(context.c_function(source, "k"), (x, y), (1,), (), 1)

    builder = gw.GraphBuilder()
    x = builder.input("x", "f32", ("N",))
    first, second = op_class("First")(), op_class("Second")()
    builder.output("y", builder(second, builder(first, x)))
    with pytest.raises(gw.PluginError) as caught:
        builder.compile()
    assert [fault.where for fault in caught.value.diagnostics] == ["First.c:1", "Second.c:1"]


class _Copied(Op):
    def infer(self, at: Inference, x):  # type: ignore[no-untyped-def]
        return x.type


# -- rules ------------------------------------------------------------------------------------------------

RULE = """\
import numpy as np
from graphwright.plugins import *
from graphwright.ops.core.unary import Abs, Relu

X = Var("x")

def check(m):
    return {check}

def rewrite(b, m):
    {rewrite}

register(Rule("mine", P(Relu, X), check, rewrite), at="{at}")
"""
RULES = {
    "mine.py:8: check of rule mine raised ZeroDivisionError": ("1 / 0", "return m[X]"),
    "mine.py:7: check of rule mine returned False: it must return a reason against the rewrite, or None": (
        "False",
        "return m[X]",
    ),
    "mine.py:11: rewrite of rule mine raised KeyError": ("None", "return {}[0]"),
    "mine.py:10: rewrite of rule mine returned None instead of a value": ("None", "pass"),
    "rewrite of rule mine returned 2 values for 1 outputs": ("None", "return m[X], m[X]"),
    "returned f64[3] instead of f32[N, M] (node Relu:y)": ("None", "return b.const(np.zeros(3))"),
    "rewrite of rule mine: Add: operands of f32 and f64": (
        "None",
        "from graphwright.ops.core.binary import Add; return b(Add(), m[X], b.const(np.zeros(3)))",
    ),
    "after rule mine of mine.py": (  # a value of no graph: found by the verifier
        "None",
        "return Value(m[X].type, 'lost')",
    ),
}


@pytest.mark.parametrize("at", ["imported", "simplified"])
@pytest.mark.parametrize("message", RULES)
def test_a_rule_that_fails(message: str, at: str) -> None:
    check, rewrite = RULES[message]
    load(RULE.format(check=check, rewrite=rewrite, at=at))
    with pytest.raises(gw.GraphwrightError) as caught:
        gw.compile(node_model(RELU))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("rewrite", "reported"),
    [
        pytest.param("return b(Relu(), m[X])", "rule mine stopped after 16 sweeps", id="it never ends"),
        pytest.param("return 'it is cheap'", "it is cheap", id="it returns a reason"),
    ],
)
def test_the_report_says_why_a_rule_stopped_or_did_not_apply(rewrite: str, reported: str) -> None:
    load(RULE.format(check="None", rewrite=rewrite, at="imported"))
    model = gw.compile(node_model(RELU))
    assert reported in model.report()
    x = numbers(3, 4)
    np.testing.assert_array_equal(model(x)[0], np.maximum(x, 0))


@pytest.mark.parametrize("at", ["imported", "simplified", "decomposed"])
def test_rules_run_at_each_point(at: str) -> None:
    load(RULE.format(check="None", rewrite="return b(Abs(), m[X])", at=at))
    model = gw.compile(node_model(RELU))
    assert "rule mine: mine 1" in model.report()
    x = numbers(3, 4)
    np.testing.assert_array_equal(model(x)[0], np.abs(x))


PASS = """
from dataclasses import dataclass
from graphwright.plugins import Pass, register

@dataclass(frozen=True)
class Mine(Pass):
    name: str = "mine"

    def run(self, module, record):
        {body}

register(Mine(), at="simplified")
"""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return 1 / 0", "mine.py:10: pass mine raised ZeroDivisionError"),
        ("next(iter(module.main)).output.uses[None, 0] = None; return False", "after pass mine of mine.py"),
    ],
)
def test_a_pass_that_fails(body: str, message: str) -> None:
    load(PASS.format(body=body))
    with pytest.raises(gw.GraphwrightError) as caught:
        gw.compile(node_model(RELU))
    assert message in str(caught.value)


def test_the_command_shows_an_error_without_a_traceback() -> None:
    Path("mine.py").write_text("".join((HEAD, INFER, "    def reference(self, x):\n        1 / 0\n", ONNX)))
    onnx.save(MODEL, "model.onnx")
    done = graphwright("run", "model.onnx", "--shape", "x:2,3", "--plugin", "mine.py")
    assert done.exit_code == 1 and "Traceback" not in done.stderr
    assert "mine.py:9: Mine.reference raised ZeroDivisionError: division by zero" in done.stderr
