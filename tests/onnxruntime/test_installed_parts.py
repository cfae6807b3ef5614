"""Quantizers and tools of an installed ONNX Runtime give the same models on graphwright's sessions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from onnxruntime.capi import _pybind_state as theirs

from graphwright.onnxruntime import weights

INSTALL = "import graphwright.onnxruntime\ngraphwright.onnxruntime.install()\n"
MODEL = """
import numpy as np, onnx, sys
from pathlib import Path
from onnx import TensorProto, helper, numpy_helper

random = np.random.default_rng(0)
nodes = [
    helper.make_node("Conv", ["x", "w"], ["c"], name="conv", kernel_shape=[3, 3]),
    helper.make_node("Relu", ["c"], ["r"], name="relu"),
    helper.make_node("GlobalAveragePool", ["r"], ["p"], name="pool"),
    helper.make_node("Flatten", ["p"], ["f"], name="flatten"),
    helper.make_node("MatMul", ["f", "m"], ["y"], name="product"),
]
info = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
constants = {"w": random.standard_normal((16, 3, 3, 3)), "m": random.standard_normal((16, 5))}
graph = helper.make_graph(
    nodes, "g", [info("x", ["N", 3, 8, 8])], [info("y", ["N", 5])],
    [numpy_helper.from_array(value.astype("f"), name) for name, value in constants.items()],
)
path, made = Path(sys.argv[1]) / "model.onnx", Path(sys.argv[1]) / "made.onnx"
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
x = random.random((2, 3, 8, 8), np.float32)
"""
SCRIPTS = {
    "dynamic": """
from onnxruntime.quantization import QuantType, quantize_dynamic
quantize_dynamic(path, made, weight_type=QuantType.QUInt8)
""",
    "static": """
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, quantize_static
class Reader(CalibrationDataReader):
    def __init__(self): self.feeds = iter([{"x": x[i:i + 1]} for i in range(2)])
    def get_next(self): return next(self.feeds, None)
quantize_static(path, made, Reader(), calibrate_method=CalibrationMethod.Percentile)
""",
    "nbits": """
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
quantizer = MatMulNBitsQuantizer(onnx.load(path), block_size=16, is_symmetric=False)
quantizer.process()
quantizer.model.save_model_to_file(str(made))
""",
    "shapes": """
from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference
onnx.save(SymbolicShapeInference.infer_shapes(onnx.load(path)), made)
""",
    "float16": """
from onnxruntime.transformers.float16 import convert_float_to_float16
from onnxruntime.transformers.onnx_model import OnnxModel
onnx.save(convert_float_to_float16(OnnxModel(onnx.load(path)).model, keep_io_types=True), made)
""",
}


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("name", SCRIPTS)
def test_parts_give_what_they_give_on_onnx_runtime(name: str, tmp_path: Path) -> None:
    if name == "nbits":
        pytest.importorskip("onnx_ir")
    models = []
    for engine, start in (("ours", INSTALL), ("theirs", "")):
        (tmp_path / engine).mkdir()
        done = run(start + MODEL + SCRIPTS[name], str(tmp_path / engine))
        assert done.returncode == 0, done.stderr
        models.append(onnx.load(tmp_path / engine / "made.onnx").graph)
    mine, wanted = models
    assert [str(node) for node in mine.node] == [str(node) for node in wanted.node]
    assert [info.name for info in mine.value_info] == [info.name for info in wanted.value_info]
    for one, other in zip(mine.initializer, wanted.initializer, strict=True):
        assert one.name == other.name
        one_array, other_array = numpy_helper.to_array(one), numpy_helper.to_array(other)
        if "scale" in one.name:  # of values that a session computed
            np.testing.assert_allclose(one_array, other_array, rtol=1e-5)
        else:
            np.testing.assert_array_equal(one_array, other_array)


def test_every_module_of_capi_can_be_imported() -> None:
    """Those that graphwright lacks are the installed package's; the others stay graphwright's."""
    folder = Path(onnxruntime.__file__).parent / "capi"
    names = [file.stem for file in folder.glob("[!_]*.py")]
    assert "onnxruntime_validation" in names
    lines = [f"import onnxruntime.capi.{name}" for name in names]
    lines.append("from onnxruntime.capi import onnxruntime_pybind11_state as state, onnxruntime_validation")
    lines.append("print(state.__file__, onnxruntime_validation.__file__)")
    done = run("\n".join([INSTALL, *lines]))
    assert done.returncode == 0, done.stderr
    state, other = done.stdout.split()
    assert "graphwright" in state and Path(other).parent == folder


def test_examples_of_the_installed_package() -> None:
    script = "from onnxruntime.datasets import get_example\nprint(get_example('sigmoid.onnx'))"
    done = run(INSTALL + script)
    assert done.stdout.strip() == str(Path(onnxruntime.__file__).parent / "datasets" / "sigmoid.onnx")


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("size", [16, 32, 64])
def test_weights_of_few_bits(bits: int, symmetric: bool, size: int) -> None:
    values = np.random.default_rng(bits).standard_normal((128, 5)).astype(np.float32)
    values[:, 0], values[:size, 1] = 0, np.abs(values[:size, 1])
    blocks = 128 // size
    made = []
    for engine in (weights, theirs):
        packed = np.zeros((5, blocks, size * bits // 8), np.uint8)
        scales, zeros = np.zeros(5 * blocks, np.float32), np.zeros(5 * -(-blocks * bits // 8), np.uint8)
        getattr(engine, f"quantize_matmul_{bits}bits")(packed, values, scales, zeros, size, 5, 128, symmetric)
        made.append((packed, scales, zeros))
    for mine, wanted in zip(*made, strict=True):
        np.testing.assert_array_equal(mine, wanted)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize(("rows", "columns"), [(128, 6), (20, 3), (7, 5)])
def test_four_bit_weights_of_a_dequantizing_node(rows: int, columns: int, symmetric: bool) -> None:
    values = np.random.default_rng(rows).standard_normal((rows, columns)).astype(np.float32)
    values[:, 0], values[:16, 1] = 0, np.abs(values[:16, 1])
    blocks = -(-rows // 16)
    made = []
    for engine in (weights, theirs):
        packed = np.zeros((rows * columns + 1) // 2, np.uint8)
        scales, zeros = (
            np.zeros((blocks, columns), np.float32),
            np.zeros((blocks * columns + 1) // 2, np.uint8),
        )
        signed = engine.quantize_qdq_matmul_4bits(packed, values, scales, zeros, 16, columns, rows, symmetric)
        made.append((packed, scales, zeros, signed))
    for mine, wanted in zip(*made, strict=True):
        np.testing.assert_array_equal(mine, wanted)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize(("rows", "columns"), [(64, 6), (5, 7)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_weights_in_the_codes_of_bitsandbytes(kind: int, rows: int, columns: int, dtype: type) -> None:
    values = np.random.default_rng(rows).standard_normal((columns, rows)).astype(dtype)
    values[0, :16], values[1, ::2] = 0, 0
    made = []
    for engine in (weights, theirs):
        packed, maxima = np.zeros((values.size + 1) // 2, np.uint8), np.zeros(-(-values.size // 16), dtype)
        engine.quantize_matmul_bnb4(packed, values, maxima, 16, kind, columns, rows)
        made.append((packed, maxima))
    for mine, wanted in zip(*made, strict=True):
        np.testing.assert_array_equal(mine, wanted)


PARTS = {
    "quantization": "quantization.quantize_dynamic",
    "tools": "tools.symbolic_shape_infer",
    "transformers": "transformers.onnx_model",
    "datasets": "datasets.get_example",
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("first", ["from onnxruntime import {0}", "import onnxruntime.{0}"])
def test_from_onnxruntime_imports_the_same_part(part: str, first: str) -> None:
    name = PARTS[part]
    done = run(
        f"{INSTALL}{first.format(part)}\n"
        f"from onnxruntime import {part}\n"
        f"import onnxruntime.{part} as other\n"
        f"from onnxruntime.{part} import {name.partition('.')[2]} as found\n"
        f"assert {part} is other and {name} is found\n"
        f"print({part}.__file__)"
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()) == Path(onnxruntime.__file__).parent / part / "__init__.py"
