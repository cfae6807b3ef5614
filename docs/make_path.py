"""Writes the dumps in docs/path_of_a_model.md: one small model at every stage, as the compiler really has it.

``python -m docs.make_path`` changes the page; a test compares it with what the compiler does now.
"""

from __future__ import annotations

import inspect
import re
import tempfile
import textwrap
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import graphwright.ops
from graphwright.api import compile as compile_model
from graphwright.compiler.code_generation import Compilation, compile_units
from graphwright.compiler.unit import Unit
from graphwright.config import Options
from graphwright.frontends.onnx import load
from graphwright.ir.graph import Module
from graphwright.ir.loops.text import print_kernel
from graphwright.ir.text import print_module
from graphwright.kernels.library.write import argument_names
from graphwright.low_ir.tasks import Storage, TaskGraph
from graphwright.low_ir.text import print_program
from graphwright.package.write import write_package
from graphwright.passes.base import Record
from graphwright.runtime.devices.cpu import Cpu
from graphwright.runtime.events.task_calls import record_tasks
from graphwright.targets.cpu.isa import ISAS
from graphwright.tools.reports.pipeline_table import pipeline_text

PAGE = Path(__file__).with_name("path_of_a_model.md")
ISA = "v3"
"""So that the page is the same on every machine."""
IMAGES = 2
BLOCK = re.compile(r"<!-- dump (\w+) -->\n```(\w*)\n(.*?)```\n", re.DOTALL)
TIME = re.compile(r" *\d+\.\d us")


def tiny() -> onnx.ModelProto:
    """Convolution, normalization, activation, a residual, and a classifier."""
    weights = {
        "w1": wave(32, 3, 3, 3),
        **{name: wave(32) for name in ("shift", "mean")},
        **{name: wave(32) + 1 for name in ("gain", "variance")},
        "w2": wave(32, 32, 1, 1),
        "w3": wave(32, 4),
        "bias": wave(4),
    }
    nodes = [
        helper.make_node("Conv", ["image", "w1"], ["c1"], "stem", pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("BatchNormalization", ["c1", "gain", "shift", "mean", "variance"], ["b1"], "norm"),
        helper.make_node("HardSwish", ["b1"], ["h"], "act"),
        helper.make_node("Conv", ["h", "w2"], ["c2"], "mix"),
        helper.make_node("Add", ["c2", "h"], ["r"], "residual"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flat"),
        helper.make_node("Gemm", ["f", "w3", "bias"], ["logits"], "head"),
        helper.make_node("Softmax", ["logits"], ["classes"], "softmax", axis=-1),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 3, 16, 16])
    classes = helper.make_tensor_value_info("classes", TensorProto.FLOAT, ["N", 4])
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "tiny", [image], [classes], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def sums() -> onnx.ModelProto:
    """Running sums of rows: a loop."""
    row, rows = [4], ["N", 4]

    def infos(**shapes: list[Any]) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in shapes.items()]

    nodes = [helper.make_node("Add", ["s", "a"], ["t"], "add"), helper.make_node("Identity", ["t"], ["u"])]
    body = helper.make_graph(nodes, "body", infos(s=row, a=row), infos(t=row, u=row))
    scan = helper.make_node("Scan", ["s0", "x"], ["sum", "sums"], "scan", body=body, num_scan_inputs=1)
    graph = helper.make_graph([scan], "sums", infos(s0=row, x=rows), infos(sum=row, sums=rows))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def wave(*shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Numbers that are the same everywhere, in [-0.5, 0.5)."""
    return (np.arange(np.prod(shape)) * 7 % 16 / 16 - 0.5).astype(np.float32).reshape(shape)


def dumps() -> dict[str, str]:
    """The text of each block by name."""
    graphwright.ops.load()
    module = load(tiny())
    made = {"onnx": inspect.getsource(tiny), "imported": print_module(module, constants="short")}
    seen: list[tuple[str, str]] = []

    def observe(stage: str, product: object) -> None:
        if isinstance(product, Module):
            seen.append((stage, print_module(product, constants="short")))

    (done,) = compile_units([Unit(module)], Options(isa=ISA), observe)
    stages = [stage for stage, _ in seen]
    made["simplified"] = seen[stages.index("decompose") - 1][1]
    made["decomposed"] = seen[stages.index("fuse") - 1][1]
    made["fused"] = seen[stages.index("fuse")][1]
    made["layouts"] = seen[stages.index("assign_layouts")][1]
    made["schedule"] = _lines_of("%classes = Fused", seen[stages.index("schedule")][1])
    made["records"] = _records(done.records)
    kernels = [kernel for kernel, _ in done.kernels.kernels()]
    (softmax,) = (kernel for kernel in kernels if "softmax" in kernel.name)
    made["loops"], made["c"] = print_kernel(softmax), _c_function(done, softmax.name)
    made["tasks"] = print_program(
        _task_graph(done),
        "\n".join(print_kernel(k) for k in kernels if k is not softmax),
        argument_names(ISAS[ISA]),
    )
    (repeated,) = compile_units([Unit(load(sums()))], Options(isa=ISA))
    made["repeated"] = print_program(_task_graph(repeated))
    made["plan"], made["run"] = _run(done)
    made["members"] = _members()
    made["pipeline"] = pipeline_text()
    made["host_program"] = _host_program(words())
    return {name: text.strip("\n") + "\n" for name, text in made.items()}


def words() -> onnx.ModelProto:
    """Words that are looked up, kept where they are known, and multiplied with a matrix."""
    encoder: dict[str, Any] = {"keys_strings": ["one", "two"], "values_int64s": [1, 2], "default_int64": 0}
    nodes = [
        helper.make_node("StringSplit", ["lines"], ["words", "counts"], "split", delimiter=" "),
        helper.make_node("LabelEncoder", ["words"], ["ids"], "encode", domain="ai.onnx.ml", **encoder),
        helper.make_node("NonZero", ["ids"], ["places"], "known"),
        helper.make_node("Gather", ["table", "ids"], ["vectors"], "look_up"),
        helper.make_node("Transpose", ["places"], ["rows"], "turn"),
        helper.make_node("GatherND", ["vectors", "rows"], ["kept"], "keep"),
        helper.make_node("MatMul", ["kept", "weight"], ["y"], "mix"),
    ]
    lines = helper.make_tensor_value_info("lines", TensorProto.STRING, ["N"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    weights = {"table": wave(3, 8), "weight": wave(8, 4)}
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "words", [lines], [y], tensors)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 4)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _lines_of(node: str, text: str) -> str:
    """The listing of ``node`` and its region."""
    lines = text.splitlines()
    first = next(k for k, line in enumerate(lines) if line.lstrip().startswith(node))
    margin = lines[first].removesuffix(lines[first].lstrip())
    return textwrap.dedent("\n".join(lines[first : lines.index(f"{margin}}}", first) + 1]))


def _host_program(model: onnx.ModelProto) -> str:
    """The steps of the host program of a model, as its report lists them."""
    report = compile_model(load(model), options=Options(isa=ISA)).report()
    return report.partition("\nsubgraph 0\n  passes\n")[0].partition("host program\n")[2]


def _records(records: Sequence[Record]) -> str:
    """What each pass did, and what it declined to do."""
    lines = []
    for record in records:
        if not record.modified and not record.reasons:
            continue
        did = ", ".join(f"{what}: {count}" for what, count in record.counts.items())
        lines.append(f"{record.name:15} {record.nodes_before:2} -> {record.nodes_after:2} nodes   {did}")
        lines += [f"    {reason.rule} at {reason.location}: no, {reason.why}" for reason in record.reasons]
    return "\n".join(lines)


def _task_graph(done: Compilation) -> TaskGraph:
    return done.program.targets[ISA].task_graph


def _c_function(done: Compilation, name: str) -> str:
    """The C of the kernel ``name``."""
    (source,) = (text for file, text in done.program.targets[ISA].sources.items() if file.endswith(".c"))
    found = re.search(rf"^[^\n;]*\b{name}\([^\n;]*{{\n.*?^}}\n", source, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[0]


def _run(done: Compilation) -> tuple[str, str]:
    """The plan for two images, and a run of it with time stamps."""
    executor = Cpu(done.program, done.program.targets[ISA], done.weights)
    image = wave(IMAGES, 3, 16, 16)
    image[1] *= 2
    plan = executor.plan([image.shape], 1)
    lines = [f"arena: {plan['arena']} bytes"]
    for number, (buffer, offset) in enumerate(zip(_task_graph(done).buffers, plan["offsets"], strict=True)):
        if buffer.storage in (Storage.ARENA, Storage.SCRATCH):
            place = f"offset {offset:5}, {plan['sizes'][number]:5} bytes"
            lines.append(f"b{number:<2} {place}  {buffer.storage.name.lower():8}{buffer.name}".rstrip())
    return "\n".join(lines), _times(executor, image, _task_graph(done))


def _times(executor: Cpu, image: np.ndarray[Any, Any], tasks: TaskGraph) -> str:
    (answer,) = executor.run([image], None, 1)
    _, stamps = record_tasks(lambda: executor.run([image], None, 1))
    first = stamps[0].start
    lines = [
        f"t{s.task}  {(s.start - first) / 1e3:8.1f} us  {(s.end - s.start) / 1e3:8.1f} us  {s.kernel}"
        for s in stamps
    ]
    return "\n".join(
        ["task     start       time  kernel", *lines, f"{tasks.outputs[0].name}:", str(answer.round(3))]
    )


def _members() -> str:
    package = compile_model(load(tiny()), options=Options(isa=ISA)).package
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tiny.om"
        write_package(package, file, key=bytes(32))
        with zipfile.ZipFile(file) as archive:
            return "\n".join(archive.namelist())


def filled(page: str, texts: dict[str, str]) -> str:
    """``page`` with ``texts`` in its blocks. Raises KeyError for a block that has none."""
    return BLOCK.sub(lambda m: f"<!-- dump {m[1]} -->\n```{m[2]}\n{texts[m[1]]}```\n", page)


def blocks(page: str) -> dict[str, str]:
    """The texts that ``page`` holds."""
    return {match[1]: match[3] for match in BLOCK.finditer(page)}


def main() -> None:
    PAGE.write_text(filled(PAGE.read_text(), dumps()))


if __name__ == "__main__":
    main()
