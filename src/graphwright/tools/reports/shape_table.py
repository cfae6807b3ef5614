"""``explain --shapes``: the dynamic sizes, the inputs or nodes that determine them, and those bound at run
time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from graphwright.compiler.recompile import unpacked_module
from graphwright.compiler.report import dynamic_lines
from graphwright.executable.nodes import BindSize, CallProgram, host_programs_of
from graphwright.executable.target_code import TargetCode
from graphwright.ir.graph import Module
from graphwright.ir.sizes import SizeRange
from graphwright.low_ir.tasks import Code, Operand, TaskGraph
from graphwright.package.package import Entry, Package
from graphwright.passes.dynamic_sizes import open_inputs
from graphwright.records import dataclass
from graphwright.support.message_text import counted
from graphwright.tools.console import note, say, table
from graphwright.tools.reports.model_facts import constraint_texts, guard_texts, size_spans

MOST_ROWS: Final = 12
_CHECKS: Final = (Code.CHECK_EQ, Code.CHECK_LE)
_GUARDS: Final = (Code.GUARD_EQ, Code.GUARD_LE, Code.GUARD_NE)


@dataclass(frozen=True)
class InputSize:
    """A size that follows from the shapes of feeds; ``axes`` are the inputs and axes that have it."""

    size: str
    axes: tuple[tuple[str, int], ...]
    span: SizeRange


@dataclass(frozen=True)
class ShapeProgram:
    """The shape program of one program, which runs when a plan for new sizes is made: the number of
    ``instructions`` that depend on sizes, and of the buffers, tasks and offsets that use their results.
    """

    program: int
    isa: str
    instructions: int
    buffers: int
    tasks: int
    offsets: int
    checks: int
    guards: int


@dataclass(frozen=True)
class Shapes:
    """The dynamic sizes and ranks in the main entry of a package."""

    sizes: tuple[InputSize, ...]
    ranks: tuple[str, ...]
    """The inputs of unknown rank."""
    by_data: tuple[str, ...]
    """The data-dependent sizes and ranks, each with the node that determines it."""
    bound: tuple[tuple[str, str], ...]
    """Each size that is bound between programs, and the node that binds it or the subgraph that receives
    it.
    """
    programs: tuple[ShapeProgram, ...]
    constraints: tuple[str, ...]
    guards: tuple[str, ...]

    @classmethod
    def of(cls, package: Package) -> Shapes:
        """The shapes of a package. Raises PackageError."""
        module, entry = unpacked_module(package), package.main
        listed = set(open_inputs(module.main))
        inputs = module.main.inputs
        return cls(
            tuple(_input_sizes(module)),
            tuple(value.name for value in inputs if value.type.shape is None),
            tuple(line for line in dynamic_lines(entry.report) if line not in listed),
            tuple(dict.fromkeys(_bound(entry))),
            tuple(
                _shape_program(number, target)
                for number, program in enumerate(entry.programs())
                for target in program.targets.values()
            ),
            tuple(constraint_texts(entry)),
            tuple(guard_texts(entry)),
        )


def _input_sizes(module: Module) -> Iterator[InputSize]:
    spans: Mapping[str, SizeRange] = size_spans(module)
    axes: dict[str, list[tuple[str, int]]] = {}
    for value in module.main.inputs:
        for axis, dim in enumerate(value.type.shape or ()):
            if not isinstance(dim, int):
                axes.setdefault(str(dim), []).append((value.name, axis))
    for size, found in axes.items():
        yield InputSize(size, tuple(found), spans[size])


def _bound(entry: Entry) -> Iterator[tuple[str, str]]:
    programs = () if entry.executable is None else host_programs_of(entry.executable)
    for program in programs:
        for step in program.walk():
            if isinstance(step, BindSize):
                yield step.size, step.node
            elif isinstance(step, CallProgram):
                for size in step.sizes:
                    yield size, f"handed to subgraph {step.number}"


def _shape_program(number: int, target: TargetCode) -> ShapeProgram:
    graph = target.task_graph
    open_registers = _open_registers(graph)
    codes = [instruction.code for instruction in graph.shape]
    return ShapeProgram(
        number,
        target.name,
        len(open_registers),
        sum(buffer.size in open_registers for buffer in graph.buffers),
        sum(not open_registers.isdisjoint((task.grid, *task.args)) for task in graph.tasks),
        sum(
            isinstance(operand, Operand) and operand.offset in open_registers
            for task in graph.tasks
            for operand in task.operands
        ),
        sum(code in _CHECKS for code in codes),
        sum(code in _GUARDS for code in codes),
    )


def _open_registers(graph: TaskGraph) -> set[int]:
    """The registers that depend on sizes of inputs."""
    found: set[int] = set()
    for number, each in enumerate(graph.shape):
        if each.code is Code.DIM or (each.code is not Code.CONST and not found.isdisjoint((each.a, each.b))):
            found.add(number)
    return found


def shape_facts(package: Package) -> dict[str, Any]:
    """All of it. The shapes of a package. Raises PackageError."""
    found = Shapes.of(package)
    return {
        "sizes": [
            {
                "size": each.size,
                "inputs": [{"input": name, "axis": axis} for name, axis in each.axes],
                "least": each.span.low,
                "most": each.span.high,
                "multiple": each.span.multiple,
            }
            for each in found.sizes
        ],
        "ranks": list(found.ranks),
        "by_data": list(found.by_data),
        "bound": [{"size": size, "by": by} for size, by in found.bound],
        "shape_programs": [
            {
                "program": each.program,
                "isa": each.isa,
                "instructions": each.instructions,
                "buffers": each.buffers,
                "tasks": each.tasks,
                "offsets": each.offsets,
                "checks": each.checks,
                "guards": each.guards,
            }
            for each in found.programs
        ],
        "constraints": list(found.constraints),
        "guards": list(found.guards),
    }


def show_shapes(package: Package) -> None:
    """Shows the sizes of inputs, then data-dependent sizes, and those bound at the start of a run."""
    found = Shapes.of(package)
    if not (found.sizes or found.ranks or found.by_data):
        say("all shapes are static: nothing is computed at run time")
        return
    rows = [[each.size, each.span.words, _axes(each)] for each in found.sizes]
    rows += [["rank", "any", f"input {name}"] for name in found.ranks]
    _show("dynamic dimensions of inputs", rows)
    _show("data-dependent dimensions", [[line] for line in found.by_data])
    _show("bound between programs", [[size, by] for size, by in found.bound])
    _show("computed by the shape program for each new shape", [[_text(each)] for each in found.programs])
    _show("constraints on the inputs", [[line] for line in found.constraints])
    _show("guards; shapes that violate one are compiled again", [[line] for line in found.guards])


def _show(title: str, rows: list[list[str]]) -> None:
    if not rows:
        return
    say(title)
    table(rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        note(f"{len(rows) - MOST_ROWS} more: --json lists all")


def _axes(each: InputSize) -> str:
    return ", ".join(f"axis {axis} of {name}" for name, axis in each.axes)


def _text(each: ShapeProgram) -> str:
    counts = (
        (each.buffers, "buffer size"),
        (each.tasks, "task"),
        (each.offsets, "offset"),
        (each.checks, "check"),
        (each.guards, "guard"),
    )
    bound = ", ".join(counted(count, noun) for count, noun in counts if count) or "nothing"
    return f"program {each.program} for {each.isa}: {counted(each.instructions, 'instruction')} for {bound}"
