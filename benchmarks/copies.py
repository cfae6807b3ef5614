"""Counts the launches of a compiled model that only move data, their bytes, and the nodes before and after
each.

    python -m benchmarks.copies [MODEL|FILE.onnx ...] [--sizes small|full] [--source onnx|module] [--table]

Nothing is run or timed: the tasks of the compiled program are counted. MODEL is a name of
``benchmarks.torch_compile.models`` (random weights; needs torch and transformers): the module is exported to
ONNX, or compiled directly (``--source module``). Bytes are those that a launch reads and writes.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import graphwright as gw
from graphwright.executable.target_code import TargetCode
from graphwright.ir.loops.nodes import Accumulate, Kernel, Let, Load, Store, walk
from graphwright.ir.loops.text import parse_kernel
from graphwright.kernels.movement import blocked_concat, copy, reblock
from graphwright.kernels.movement.copy import CopyNd
from graphwright.kernels.movement.gather import Gather
from graphwright.kernels.movement.pad import PadNd
from graphwright.kernels.movement.rows import MAX_RANK
from graphwright.low_ir.tasks import Code, Operand, Storage, Task, TaskGraph, TaskKind
from graphwright.records import dataclass

MODELS: Final = ("swin", "qwen2", "convnext", "segformer")
_LAYOUT: Final = {reblock.BLOCK: "layout", reblock.UNBLOCK: "layout", blocked_concat.SYMBOL: "concat"}
_OPERATORS: Final[Mapping[Code, Callable[[int, int], int]]] = {
    Code.ADD: lambda a, b: a + b, Code.SUB: lambda a, b: a - b, Code.MUL: lambda a, b: a * b,
    Code.FLOORDIV: lambda a, b: a // b, Code.MOD: lambda a, b: a % b, Code.MIN: min, Code.MAX: max,
}  # fmt: skip


@dataclass(frozen=True)
class Moved:
    """A launch that only moves data: the kind of move, the nodes that it comes from, and its neighbors."""

    task: int
    kind: str
    bytes: int
    nodes: str
    producers: tuple[str, ...]
    consumers: tuple[str, ...]


def moves_of(model: gw.Model) -> list[Moved]:
    """The launches of ``model`` that only move data; symbolic sizes count as 1."""
    return [m for target in _targets(model) for m in _moves(target.task_graph, _kernels(target.sources))]


def _targets(model: gw.Model) -> Iterator[TargetCode]:
    """The first target of each program."""
    for program in model.package.programs():
        yield next(iter(program.targets.values()))


def _kernels(sources: Mapping[str, str]) -> dict[str, Kernel]:
    """The loop IR of the generated kernels, by name."""
    texts = [text for name, text in sources.items() if name.endswith(".loops")]
    parts = [part for text in texts for part in ("\n" + text).split("\nkernel ")[1:]]
    return {kernel.name: kernel for kernel in (parse_kernel("kernel " + part) for part in parts)}


def _moves(graph: TaskGraph, loops: Mapping[str, Kernel]) -> Iterator[Moved]:
    registers = _registers(graph)
    for number, task in enumerate(graph.tasks):
        kind = _kind(graph, task, registers, loops)
        if kind is None:
            continue
        sources = [
            o.buffer for k, o in enumerate(task.operands) if isinstance(o, Operand) and k not in task.writes
        ]
        results = [
            o.buffer for k, o in enumerate(task.operands) if isinstance(o, Operand) and k in task.writes
        ]
        yield Moved(
            number, kind, _bytes(graph, task, sources, results, registers), task.name,
            _names(graph, reversed(range(number)), sources, written=True),
            _names(graph, range(number + 1, len(graph.tasks)), results, written=False),
        )  # fmt: skip


def _kind(graph: TaskGraph, task: Task, registers: Sequence[int], loops: Mapping[str, Kernel]) -> str | None:
    """The kind of move of ``task``; None if it computes."""
    if task.kind is TaskKind.COPY:
        return "copy"
    if task.kind is not TaskKind.LAUNCH:
        return None
    symbol = graph.kernels[task.kernel].symbol
    if symbol == CopyNd.SYMBOL:
        return _strided(copy.ABI.args, [registers[a] for a in task.args])
    if symbol == Gather.SYMBOL:
        indices = task.operands[1]
        is_constant = isinstance(indices, Operand) and graph.buffers[indices.buffer].storage is Storage.WEIGHT
        return "gather" if is_constant else None
    if symbol == PadNd.SYMBOL:
        return "pad"
    if symbol in loops and _only_moves(loops[symbol]):
        return "generated"
    return _LAYOUT.get(symbol)


def _strided(names: Sequence[str], args: Sequence[int]) -> str:
    """The kind of a strided copy, by the order of elements and by the side that has gaps."""
    known = dict(zip(names, args, strict=True))
    axes = [(known[f"n{k}"], known[f"d{k}"], known[f"s{k}"]) for k in range(MAX_RANK) if known[f"n{k}"] != 1]
    source = [s for _, _, s in axes]
    if 0 in source:
        return "expand"
    if source != sorted(source, reverse=True):
        return "transpose"
    gaps = [_has_gaps([(n, (d, s)[side]) for n, d, s in axes]) for side in (0, 1)]
    return "concat" if gaps[0] else "slice" if gaps[1] else "copy"


def _has_gaps(axes: Sequence[tuple[int, int]]) -> bool:
    dense = 1
    for size, stride in reversed(axes):
        if stride != dense:
            return True
        dense *= size
    return False


def _only_moves(kernel: Kernel) -> bool:
    values = [s.value for s in walk(kernel.body) if isinstance(s, Let | Store | Accumulate)]
    return all(isinstance(value, Load) for value in values)


def _bytes(
    graph: TaskGraph, task: Task, sources: Sequence[int], results: Sequence[int], registers: Sequence[int]
) -> int:
    """Bytes read and written. A part has at most the bytes of the smaller of its two buffers."""
    if task.kind is TaskKind.COPY:
        return 2 * registers[task.args[0]]
    sizes = [max((registers[graph.buffers[b].size] for b in side), default=0) for side in (sources, results)]
    if graph.kernels[task.kernel].symbol == CopyNd.SYMBOL:
        known = dict(zip(copy.ABI.args, (registers[a] for a in task.args), strict=True))
        return 2 * known["size"] * math.prod(known[f"n{k}"] for k in range(MAX_RANK))
    return 2 * min(sizes)


def _names(
    graph: TaskGraph, order: Iterator[int] | range, buffers: Sequence[int], *, written: bool
) -> tuple[str, ...]:
    """The kernels that last wrote, or next read, one of ``buffers``."""
    found: dict[str, None] = {}
    left = {b for b in buffers if graph.buffers[b].storage is not Storage.WEIGHT}
    for number in order:
        task = graph.tasks[number]
        touched = {
            (o.buffer, k in task.writes) for k, o in enumerate(task.operands) if isinstance(o, Operand)
        }
        hits = {b for b, writes in touched if b in left and writes == written}
        if hits:
            found[_label(graph, task)] = None
        parts = not written and _fills_part(graph, task)
        left -= set() if parts else {b for b, writes in touched if writes and (written or b not in hits)}
        if not left:
            break
    ends = {graph.buffers[b].storage for b in left} & {Storage.INPUT, Storage.OUTPUT}
    return (*found, *sorted(storage.name.lower() for storage in ends))


def _fills_part(graph: TaskGraph, task: Task) -> bool:
    """Whether ``task`` may write only a part of its result, as the copies of a concatenation do."""
    return task.kind is TaskKind.COPY or graph.kernels[task.kernel].symbol == CopyNd.SYMBOL


def _label(graph: TaskGraph, task: Task) -> str:
    """The name of the kernel, without the number of a generated one."""
    if task.kind is not TaskKind.LAUNCH:
        return task.kind.name.lower()
    ref = graph.kernels[task.kernel]
    return ref.symbol.rpartition("_")[0] if ref.module else ref.symbol.removeprefix("gw_")


def _registers(graph: TaskGraph) -> list[int]:
    """The values of the shape program; sizes of inputs count as 1."""
    values: list[int] = []
    for i in graph.shape:
        if i.code is Code.CONST:
            values.append(i.a)
        elif i.code in _OPERATORS:
            values.append(_OPERATORS[i.code](values[i.a], values[i.b]))
        else:
            values.append(1 if i.code is Code.DIM else values[i.a])
    return values


def launches_of(model: gw.Model) -> int:
    """The number of launches and copies of ``model``."""
    return sum(len(target.task_graph.tasks) for target in _targets(model))


def table(moves: Sequence[Moved]) -> str:
    """The moves of one model by kind and neighbors, the most bytes first."""
    groups: dict[tuple[str, str, str], list[Moved]] = {}
    for move in moves:
        key = move.kind, " ".join(move.producers) or "-", " ".join(move.consumers) or "-"
        groups.setdefault(key, []).append(move)
    ordered = sorted(groups.items(), key=lambda item: -sum(m.bytes for m in item[1]))
    rows = (
        f"| {kind} | {before} | {after} | {len(each)} | {sum(m.bytes for m in each) / 1e6:.2f} |"
        for (kind, before, after), each in ordered
    )
    return "\n".join(
        ["| move | behind | in front of | launches | MB |", "| --- | --- | --- | ---: | ---: |", *rows]
    )


def summary(name: str, model: gw.Model) -> str:
    """One row: all launches, those that only move data, their bytes, and how many of each kind."""
    moves = moves_of(model)
    kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(m.kind for m in moves).most_common())
    total = sum(m.bytes for m in moves) / 1e6
    return f"| {name} | {launches_of(model)} | {len(moves)} | {total:.2f} | {kinds} |"


def _compiled(name: str, sizes: str, source: str) -> gw.Model:
    if Path(name).exists():
        return gw.compile(name)
    import torch

    from benchmarks.models.export import Outputs
    from benchmarks.torch_compile.models import FULL, TINY

    torch.manual_seed(0)
    model: Any
    model, given = {"small": TINY, "full": FULL}[sizes][name]()
    feeds = {key: value for key, value in given.items() if isinstance(value, torch.Tensor)}
    model.config.use_cache = False
    if name == "swin":  # torch.export cannot view what its fused attention gives
        model.set_attn_implementation("eager")
    module = Outputs(model, list(feeds)).eval()
    if source == "module":
        return gw.compile(module, tuple(feeds.values()))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.onnx"
        torch.onnx.export(
            module, tuple(feeds.values()), str(path), dynamo=True, opset_version=20, input_names=list(feeds),
            external_data=sizes == "full", verbose=False,
        )  # fmt: skip
        return gw.compile(str(path))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", default=MODELS, metavar="MODEL|FILE")
    parser.add_argument("--sizes", choices=("small", "full"), default="full")
    parser.add_argument("--source", choices=("onnx", "module"), default="onnx")
    parser.add_argument("--table", action="store_true", help="print which neighbors each move stands between")
    given = parser.parse_args(arguments)
    print("| model | launches | only move data | MB | kinds |\n| --- | ---: | ---: | ---: | --- |")
    tables = []
    for name in given.models:
        model = _compiled(name, given.sizes, given.source)
        print(summary(name, model), flush=True)
        tables.append(f"\n{name}\n\n{table(moves_of(model))}")
    if given.table:
        print("\n".join(tables))


if __name__ == "__main__":
    main()
