"""The examples: through Python and the command, against NumPy, and as packages where the plugin is not."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

import graphwright as gw
from graphwright.ir.op import op_class, registry
from tests.executables import targets
from tests.tools.support import graphwright

from .support import EXAMPLES, MODELS, PLUGINS, expected, isolated, node, node_model, numbers

SHAPES = ((5, 40), (1, 1), (7, 33), (3, 128), (0, 8))
NATIVE = [name for name in MODELS if name != "median"]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("isa", ["v3", "auto"])
def test_results_are_those_of_numpy(name: str, isa: str) -> None:
    gw.plugins.load(PLUGINS[name])
    model = gw.compile(node_model(*MODELS[name]), options=gw.CompileOptions(isa=isa))
    for shape in SHAPES:
        x = numbers(*shape)
        (y,) = model(x)
        np.testing.assert_allclose(y, expected(name, x), rtol=2e-6, atol=2e-6)
    assert model.executor.stats()["host_calls"] == (len(SHAPES) if name == "median" else 0)


@pytest.mark.parametrize("name", MODELS)
def test_the_reference_device_has_the_same_meaning(name: str) -> None:
    gw.plugins.load(PLUGINS[name])
    model = gw.compile(node_model(*MODELS[name]), options=gw.CompileOptions(device="reference"))
    x = numbers(5, 40)
    np.testing.assert_allclose(model(x)[0], expected(name, x), rtol=2e-6, atol=2e-6)


def test_the_rule_puts_the_kernel_in_place_of_two_ops() -> None:
    plain = gw.compile(node_model(*MODELS["norms"]))
    gw.plugins.load(PLUGINS["norms"])
    model = gw.compile(node_model(*MODELS["norms"]))
    assert "L2Normalize" not in plain.entry.graph and "L2Normalize" in model.entry.graph
    assert "rule normalize: normalize 1 (2 -> 1 nodes)" in model.report()
    assert "1 l2_normalize" in model.report()


def test_the_rule_says_why_it_leaves_others() -> None:
    gw.plugins.load(PLUGINS["norms"])
    nodes = [
        helper.make_node("ReduceL2", ["x"], ["norm"], axes=[0]),
        helper.make_node("Div", ["x", "norm"], ["y"]),
    ]
    report = gw.compile(node_model(*nodes)).report()
    assert "rule normalize: normalize 0" in report
    assert "Div:y: normalize: the norm is not along the last axis alone" in report


def test_an_expression_is_fused_with_its_neighbors() -> None:
    gw.plugins.load(PLUGINS["snake"])
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["a"]),
        helper.make_node("Snake", ["a"], ["b"], domain="example", alpha=2.0),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    model = gw.compile(node_model(*nodes))
    assert len(next(iter(targets(model.package).values())).task_graph.tasks) == 1
    x = numbers(9, 17)
    np.testing.assert_allclose(model(x)[0], np.maximum(expected("snake", x * x), 0), rtol=1e-5, atol=1e-5)


SOFTMAX = """
from graphwright.ops.nn.softmax import Softmax
from graphwright.plugins import *

SOURCE = CSource.inside(__file__, '''
#include <math.h>
int32_t rows(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    float *powers = scratch;
    for (int64_t row = begin; row < end; ++row) {
        const float *x = (const float *)buf[0] + row * arg[0];
        float top = -INFINITY, sum = 0;
        for (int64_t i = 0; i < arg[0]; ++i)
            top = x[i] > top ? x[i] : top;
        for (int64_t i = 0; i < arg[0]; ++i)
            sum += powers[i] = expf(x[i] - top);
        for (int64_t i = 0; i < arg[0]; ++i)
            ((float *)buf[1])[row * arg[0] + i] = powers[i] / sum;
    }
    return 0;
}
''')

@candidate(Softmax, serves=lambda node: node.operand(0).type.dtype is F32)
def softmax(node, context):
    x, y = node.operand(0), node.output
    *rows, columns = x.type.dims
    kernel = context.c_function(SOURCE, "rows")
    return Launch(kernel, (x, y), (1,), (columns,), product(rows), scratch=4 * columns, in_place=((y, x),))
"""


def test_a_kernel_of_a_built_in_op_comes_first() -> None:
    """The kernel has scratch or works in place; graphwright's kernels compute the other types."""
    Path("softmax.py").write_text(SOFTMAX)
    gw.plugins.load("softmax.py")
    nodes = [
        helper.make_node("Exp", ["x"], ["e"]),
        helper.make_node("Softmax", ["e"], ["s"], axis=-1),
        helper.make_node("Neg", ["s"], ["y"]),
    ]
    model = gw.compile(node_model(*nodes))
    assert "1 rows" in model.report()
    x = numbers(9, 31)
    powers = np.exp(np.exp(x.astype(np.float64)))
    np.testing.assert_allclose(model(x)[0], -powers / powers.sum(-1, keepdims=True), rtol=1e-5)
    wide = gw.compile(node_model(*nodes, dtype=onnx.TensorProto.DOUBLE))
    assert "1 rows" not in wide.report() and "in Python: nothing" in wide.report()
    assert wide.package.plugins == {}


SCALED = """
import numpy as np
from graphwright.plugins import *

SOURCE = CSource.inside(__file__, '''
int32_t sums(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    for (int64_t row = begin; row < end; ++row) {
        float sum = 0;
        for (int64_t i = 0; i < arg[0]; ++i)
            sum += ((const float *)buf[0])[row * arg[0] + i] * ((const float *)buf[1])[i];
        ((float *)buf[2])[row] = sum;
    }
    return 0;
}
int32_t scale(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    float all = 0;
    for (int64_t row = 0; row < arg[1]; ++row)
        all += ((const float *)buf[1])[row];
    for (int64_t i = begin; i < end; ++i)
        ((float *)buf[2])[i] = ((const float *)buf[0])[i] / all;
    return 0;
}
''')

@op("Scaled")
class Scaled(Op):
    def infer(self, at, x, weights):
        at.equal(x.shape[-1], weights.shape[0], "the weights")
        return x.type

    def reference(self, x, weights):
        return np.asarray(x / np.sum(x @ np.sqrt(weights)), x.dtype)

    onnx = FromNode("Scaled", 1, "example")

@candidate(Scaled)
def scaled(node, context):
    x, weights, y = node.operand(0), node.operand(1), node.output
    if context.constant(weights) is None:
        return "the weights are no constant"
    rows, columns = x.type.dims
    roots = context.derived(weights, "roots", (columns,), lambda out, array: np.sqrt(array, out=out))
    sums = context.temporary(TensorType(F32, (rows,)), "sums")
    first = Launch(context.c_function(SOURCE, "sums"), (x, roots, sums), (2,), (columns,), rows)
    second = Launch(context.c_function(SOURCE, "scale"), (x, sums, y), (2,), (columns, rows), rows * columns)
    return Run((first, second))
"""


def scaled_model() -> onnx.ModelProto:
    weights = numpy_helper.from_array(np.arange(1, 8, dtype=np.float32))
    constant = helper.make_node("Constant", [], ["w"], value=weights)
    scaled = helper.make_node("Scaled", ["x", "w"], ["y"], domain="example")
    return node_model(constant, scaled, shape=("N", 7))


def test_launches_one_after_the_other_with_constants_prepared_ahead() -> None:
    Path("scaled.py").write_text(SCALED)
    gw.plugins.load("scaled.py")
    model = gw.compile(scaled_model())
    x = np.abs(numbers(501, 7)) + 1
    wanted = x / np.sum(x.astype(np.float64) @ np.sqrt(np.arange(1, 8)))
    for threads in (1, 2, 3):
        model.threads = threads
        np.testing.assert_allclose(model(x)[0], wanted, rtol=1e-4)
    assert model.executor.stats()["host_calls"] == 0
    model.save("scaled.om")
    np.testing.assert_array_equal(gw.load("scaled.om")(x)[0], model(x)[0])


def test_a_constant_that_cannot_be_prepared() -> None:
    Path("scaled.py").write_text(SCALED.replace("np.sqrt(array, out=out)", "array.nothing"))
    gw.plugins.load("scaled.py")
    with pytest.raises(gw.PluginError, match=r"scaled\.py:\d+: deriving a constant raised AttributeError"):
        gw.compile(scaled_model())


def in_a_loop(op: str) -> onnx.NodeProto:
    """``x + op(x)``, three times."""
    values = [
        helper.make_tensor_value_info(*each) for each in (("i", 7, []), ("c", 9, []), ("a", 1, ["N", 16]))
    ]
    results = [helper.make_tensor_value_info(*each) for each in (("d", 9, []), ("b", 1, ["N", 16]))]
    nodes = [
        helper.make_node(op, ["a"], ["q"], domain="example"),
        helper.make_node("Add", ["a", "q"], ["b"]),
        helper.make_node("Identity", ["c"], ["d"]),
    ]
    body = helper.make_graph(nodes, "body", values, results)
    return helper.make_node("Loop", ["three", "", "x"], ["y"], body=body)


@pytest.mark.parametrize(("name", "op"), [("snake", "Snake"), ("l2_normalize", "L2Normalize")])
def test_kernels_run_in_loops(name: str, op: str) -> None:
    gw.plugins.load(PLUGINS[name])
    three = helper.make_node("Constant", [], ["three"], value_int=3)
    model = gw.compile(node_model(three, in_a_loop(op), shape=("N", 16)))
    x = numbers(5, 16)
    wanted = x.astype(np.float64)
    for _ in range(3):
        wanted = wanted + op_class(op)().reference(wanted)
    np.testing.assert_allclose(model(x)[0], wanted, rtol=1e-5, atol=1e-5)
    assert model.executor.stats()["host_calls"] == 0


def test_plugin_ops_run_on_data_dependent_sizes() -> None:
    """The next op reads a result of another op whose sizes are known only in a run."""
    gw.plugins.load(PLUGINS["median"], PLUGINS["l2_normalize"])
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Cast", ["places"], ["floats"], to=onnx.TensorProto.FLOAT),
        helper.make_node("L2Normalize", ["floats"], ["rows"], domain="example"),
        helper.make_node("Median", ["rows"], ["y"], domain="example"),
    ]
    x = (numbers(5, 7) > 0).astype(np.float32)
    rows = np.stack(np.nonzero(x)).astype(np.float64)
    wanted = expected("median", expected("l2_normalize", rows))
    np.testing.assert_allclose(gw.compile(node_model(*nodes))(x)[0], wanted, rtol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_threads_do_not_change_a_bit(name: str) -> None:
    gw.plugins.load(PLUGINS[name])
    module = node_model(*MODELS[name])
    x = numbers(3001, 257)
    one, two, three = (
        gw.compile(module, options=gw.CompileOptions(threads=threads))(x)[0] for threads in (1, 2, 3)
    )
    np.testing.assert_array_equal(one.view(np.uint32), two.view(np.uint32))
    np.testing.assert_array_equal(one.view(np.uint32), three.view(np.uint32))


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shape=st.lists(st.integers(0, 70), min_size=3, max_size=3), special=st.integers(0, 3))
def test_the_kernel_serves_every_shape(shape: list[int], special: int, l2_normalize: gw.Model) -> None:
    x = numbers(*shape)
    x.ravel()[: special * 5] = (0, np.nan, np.inf, 1e-30)[special]
    with np.errstate(all="ignore"):
        norm = np.sqrt((x * x).sum(-1, keepdims=True))
        wanted = x / np.maximum(norm, np.float32(1e-12))
    np.testing.assert_allclose(l2_normalize(x)[0], wanted, rtol=2e-6, atol=1e-6)


@pytest.fixture(scope="module")
def l2_normalize() -> gw.Model:
    with isolated():
        gw.plugins.load(PLUGINS["l2_normalize"])
        return gw.compile(node_model(node("L2Normalize"), shape=("A", "B", "C")))


def test_other_types_run_on_the_reference() -> None:
    gw.plugins.load(PLUGINS["l2_normalize"])
    model = gw.compile(node_model(node("L2Normalize"), dtype=onnx.TensorProto.DOUBLE))
    assert "the kernel computes f32, not f64" in model.report()
    x = numbers(3, 5).astype(np.float64)
    np.testing.assert_allclose(model(x)[0], expected("l2_normalize", x), rtol=1e-14)


PLUS = """
from graphwright.plugins import *

@op("Plus{n}")
class Plus{n}(Op):
    def infer(self, at, x):
        return x.type

    onnx = FromNode("Plus{n}", 1, "example")

SOURCE = CSource.inside(__file__, '''
int32_t plus(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {{
    (void)arg, (void)scratch;
    for (int64_t i = begin; i < end; ++i)
        ((float *)buf[1])[i] = ((const float *)buf[0])[i] + {n};
    return 0;
}}
''')

@candidate(Plus{n})
def plus(node, context):
    x, y = node.operand(0), node.output
    return Launch(context.c_function(SOURCE, "plus"), (x, y), (1,), (), x.type.elements)
"""


def test_functions_of_one_name_stay_apart() -> None:
    """Even their sources have the same name; generated kernels have other names."""
    for n in (1, 20):
        Path(str(n)).mkdir()
        Path(f"{n}/plus_{n}.py").write_text(PLUS.format(n=n))
        gw.plugins.load(f"{n}/plus_{n}.py")
    nodes = [
        helper.make_node("Plus1", ["x"], ["a"], domain="example"),
        helper.make_node("Mul", ["a", "a"], ["b"]),
        helper.make_node("Plus20", ["b"], ["y"], domain="example"),
    ]
    model = gw.compile(node_model(*nodes))
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(model(x)[0], (x + 1) ** 2 + 20)
    model.save("plus.om")
    np.testing.assert_array_equal(gw.load("plus.om")(x)[0], (x + 1) ** 2 + 20)


ATTRIBUTES = """
import numpy as np
from graphwright.plugins import *

@op("Attributed")
class Attributed(Op):
    outputs = 2
    optional_inputs = frozenset({1})
    needed: int
    ratio: float = 0.5
    flag: bool = False
    text: str = "none"
    sizes: tuple[int, ...] = ()
    to: DType = F32
    maybe: float | None = None

    def infer(self, at, x, bias=None):
        return TensorType(self.to, x.shape), TensorType(I64, (2,))

    def reference(self, x, bias=None):
        made = x * self.ratio if bias is None else x * self.ratio + bias
        return made.astype(self.to.numpy), np.array([self.needed, len(self.text) + len(self.sizes)])

    onnx = FromNode("Attributed", 1, "example")
"""


def test_attributes_of_nodes_become_fields() -> None:
    """Attributes have every kind; the node has an absent operand and two outputs."""
    Path("attributed.py").write_text(ATTRIBUTES)
    gw.plugins.load("attributed.py")
    given = {
        "needed": 7,
        "flag": 1,
        "text": "abc",
        "sizes": [4, 5],
        "to": onnx.TensorProto.DOUBLE,
        "maybe": 2.0,
    }
    nodes = [helper.make_node("Attributed", ["x"], ["y", "z"], domain="example", **given)]
    model = node_model(*nodes)
    model.graph.output.append(helper.make_empty_tensor_value_info("z"))
    compiled = gw.compile(model)
    assert (
        'Attributed[needed=7, flag=True, text="abc", sizes=(4, 5), to=f64, maybe=2.0]' in compiled.entry.graph
    )
    x = numbers(3, 4)
    y, z = compiled(x)
    np.testing.assert_array_equal(y, x.astype(np.float64) * 0.5)
    assert z.tolist() == [7, 5]
    compiled.save("attributed.om")
    np.testing.assert_array_equal(gw.load("attributed.om")(x)[0], y)
    del model.graph.node[0].attribute[:]
    with pytest.raises(gw.ModelError, match="attribute 'needed' is missing"):
        gw.compile(model)


# -- packages ---------------------------------------------------------------------------------------------

LOAD = """
import sys, json, numpy as np, graphwright as gw
found = {}
for name in sys.argv[1:]:
    try:
        model = gw.load(f"{name}.om")
        found[name] = model(np.load("x.npy"))[0].tolist()
    except gw.GraphwrightError as error:
        found[name] = str(error)
assert not any(module.endswith(("snake", "snake.py", "l2_normalize.py")) for module in sys.modules)
print(json.dumps(found))
"""


def test_packages_run_without_the_plugin() -> None:
    """Only the package with a NumPy op does not: its error names the plugin that it needs."""
    x = numbers(5, 40)
    np.save("x.npy", x)
    for name in MODELS:
        gw.plugins.load(PLUGINS[name])
        gw.compile(node_model(*MODELS[name])).save(f"{name}.om")
    command = [sys.executable, "-c", LOAD, *MODELS]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    for name in NATIVE:
        np.testing.assert_allclose(found[name], expected(name, x), rtol=2e-6, atol=2e-6)
    assert "median.om: it needs the op 'Median' of the plugin 'median.py'" in found["median"]
    assert "--plugin FILE" in found["median"] and "missing-plugin" in found["median"]


def test_a_package_that_is_compiled_again_needs_its_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of another user or for another CPU is compiled again; a trusted one runs as it is."""
    gw.plugins.load(PLUGINS["l2_normalize"])
    gw.compile(node_model(*MODELS["l2_normalize"])).save("model.om")
    x = numbers(5, 40)
    monkeypatch.setenv("GRAPHWRIGHT_KEY_DIR", "another-user")
    other = gw.load("model.om", options=gw.CompileOptions(isa="v3"))
    np.testing.assert_allclose(other(x)[0], expected("l2_normalize", x), rtol=2e-6, atol=2e-6)
    assert "plugin_l2_normalize.c" in targets(other.package)["v3"].sources
    del registry._REGISTRY["L2Normalize"]
    with pytest.raises(gw.PackageError) as caught:
        gw.load("model.om")
    missing, untrusted = caught.value.diagnostics
    assert (missing.code, untrusted.code) == ("missing-plugin", "untrusted")
    assert "trust=True (--trust" in untrusted.hint
    np.testing.assert_allclose(gw.load("model.om", trust=True)(x)[0], expected("l2_normalize", x), rtol=2e-6)


def test_packages_are_the_same_bytes_again(tmp_path: Path) -> None:
    gw.plugins.load(PLUGINS["l2_normalize"])
    for name in "ab":
        gw.compile(node_model(*MODELS["l2_normalize"])).save(f"{name}.om")
    assert Path("a.om").read_bytes() == Path("b.om").read_bytes()
    assert str(EXAMPLES).encode() not in Path("a.om").read_bytes()


# -- the command ------------------------------------------------------------------------------------------


def test_check_finds_a_rule_that_changes_what_a_model_computes() -> None:
    onnx.save(node_model(*MODELS["norms"]), "model.onnx")
    folder = Path("wrong")
    shutil.copytree(EXAMPLES, folder)
    rule = folder / "normalize_rule.py"
    rule.write_text(rule.read_text().replace("epsilon=0.0", "epsilon=100.0"))
    done = graphwright("check", "model.onnx", "--shape", "x:5,40", "--plugin", rule)
    assert done.exit_code == 1 and "an output is off by" in done.stderr


@pytest.mark.parametrize("name", MODELS)
def test_every_verb_takes_the_plugin(name: str) -> None:
    onnx.save(node_model(*MODELS[name]), "model.onnx")
    x = numbers(5, 40)
    np.save("x.npy", x)
    plugin = ("--plugin", PLUGINS[name])
    done = graphwright("compile", "model.onnx", "-o", "model.om", *plugin)
    assert done.exit_code == 0, done.stderr
    for source in ("model.onnx", "model.om"):
        done = graphwright("run", source, "-i", "x=x.npy", "-o", "y.npy", *plugin)
        assert done.exit_code == 0, done.stderr
        np.testing.assert_allclose(np.load("y.npy"), expected(name, x), rtol=2e-6, atol=2e-6)
    done = graphwright("check", "model.onnx", "-i", "x=x.npy", "--tolerance", "1e-6", *plugin)
    assert done.exit_code == 0 and "all outputs are within 1e-06" in done.stdout, done.stderr
    done = graphwright("inspect", "model.om", *plugin)
    assert done.exit_code == 0 and "tasks for" in done.stdout, done.stderr
    assert ("run in NumPy" in done.stdout) == (name == "median")


def test_measuring_loads_the_plugin_in_other_processes() -> None:
    onnx.save(node_model(*MODELS["median"]), "model.onnx")
    rounds = ("--rounds", 1, "--round-seconds", 0.001, "--shape", "x:3,4")
    done = graphwright("bench", "model.onnx", "--plugin", PLUGINS["median"], *rounds)
    assert done.exit_code == 0 and "graphwright" in done.stdout, done.stderr


def test_inspect_shows_a_package_whose_plugin_is_not_there() -> None:
    gw.plugins.load(PLUGINS["l2_normalize"])
    gw.compile(node_model(*MODELS["l2_normalize"])).save("model.om")
    del registry._REGISTRY["L2Normalize"]
    done = graphwright("inspect", "model.om")
    assert done.exit_code == 0, done.stderr
    assert "L2Normalize  l2_normalize.py" in done.stdout and "1  launch" in done.stdout


def test_a_plugin_kernel_may_define_its_extent(tmp_path: Path) -> None:
    for name in ("l2_normalize.py", "l2_normalize.c"):
        shutil.copy(EXAMPLES / name, tmp_path)
    source = tmp_path / "l2_normalize.c"
    head = "int32_t l2_normalize_extent(const int64_t *arg, int64_t args, int64_t operands, double *out)"
    body = "(void)arg, (void)args, (void)operands; out[7] = out[8] = 1000; return 0;"
    source.write_text(f"{source.read_text()}\nGW_EXPORT {head};\n{head} {{ {body} }}\n")
    gw.plugins.load(tmp_path / "l2_normalize.py")
    model = gw.compile(node_model(*MODELS["l2_normalize"]))
    model(numbers(5, 50))
    with pytest.raises(gw.FeedError, match="accesses 1000 bytes of operand 0, which has 996"):
        model(numbers(3, 83))
