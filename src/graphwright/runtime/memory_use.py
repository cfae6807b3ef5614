"""The memory that a model takes: what it holds, and what a run adds, as far as that is known before one."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from math import prod
from operator import index
from typing import Any, Final

from graphwright.errors import Diagnostic, FeedError
from graphwright.executable.nodes import Program
from graphwright.executable.specs import TensorSpec
from graphwright.lower.tasks import Storage, TaskGraph
from graphwright.memory.timeline import PlacedBuffer, Timeline, timeline
from graphwright.package.header import firsts_of
from graphwright.package.package import Entry, Package
from graphwright.records import dataclass, fields
from graphwright.runtime.executor import Executor, ProgramPlan
from graphwright.runtime.input_shapes import input_shapes

AnyShapes = Mapping[str, Sequence[int]] | Sequence[int]
"""Shapes of inputs by name, or that of the only input."""
NOT_COUNTED: Final = (
    "the interpreter, NumPy, the modules of graphwright, and the threads of its pool",
    "inputs, which the caller holds",
    "pages of files: code of libraries and of kernels, weights that are loaded with mmap=True",
    "a second run at the same time, which takes an arena of its own",
    "what the compiler takes, and the source model, where the model was compiled in this process",
    "values between programs, and nodes that run in Python",
)
"""What :attr:`Memory.process` leaves out."""
_COPIES_OF_TASKS: Final = 5
"""Tasks are there as text of the file, as words, and decoded by the native runtime; Python's integers, which
stand between text and words, take two more.
"""
_RELOCATED: Final = 8192
"""Bytes of a shared object that are written when it is loaded: its tables of addresses, in two pages."""
_RECORD: Final = 512
"""Bytes that name a tensor: its digest in the manifest, its line in the header, and where it lies."""
_PLAIN_CONSTANT: Final = re.compile(
    r"^ *%\S+ = Constant\[value=#([0-9a-f]+)\]: \w+\[[^]]*\](?! layout\()", re.MULTILINE
)
"""Of a graph's text: a constant that lies in memory as the model has it, by the start of its digest."""


@dataclass(frozen=True)
class ProgramMemory:
    """What a run of one program takes beside weights; sizes in bytes.

    ``shapes`` are those of its inputs. They and ``timeline`` are None, and all sizes 0, where only a run
    knows them: elements of arrays decide them, or they are open and were not given.
    """

    name: str
    """What tells it from other programs of the model; empty where it is the only one."""
    shapes: Mapping[str, tuple[int, ...]] | None
    timeline: Timeline | None
    arena_held: int = 0
    """What the arena takes of the system, which gives whole pages."""
    scratch: int = 0
    """The most that a task needs for a thread; it lies in the arena, once for each thread."""
    plan: int = 0
    """The plan itself: sizes, offsets and arguments of tasks for these shapes."""
    outputs: int = 0
    """New arrays that a run returns."""

    @property
    def arena(self) -> int:
        """Bytes of its arena."""
        return 0 if self.timeline is None else self.timeline.arena

    @property
    def live(self) -> int:
        """The most bytes that are live at once: no arena is smaller."""
        return 0 if self.timeline is None else self.timeline.live_bytes

    @property
    def buffers(self) -> tuple[PlacedBuffer, ...]:
        """What lies in the arena."""
        return () if self.timeline is None else self.timeline.buffers


@dataclass(frozen=True)
class Memory:
    """The memory of a model and of one run; sizes in bytes.

    Programs of a model run one at a time and share an arena, which is as large as the largest needs.
    """

    weights: int
    """Tensors that kernels read as the model has them."""
    packed: int
    """Tensors that kernels read in an order of their own, or in another form: filters that were transformed,
    tables."""
    package: int
    """Texts, tasks and kernels of the package, and the copy of the file that they were read from."""
    states: int
    """Arrays that are kept from run to run."""
    threads: int
    """Of a run."""
    plan_cache: int
    """Plans that are kept for each program, at most."""
    programs: tuple[ProgramMemory, ...]

    @property
    def arena(self) -> int:
        """Bytes of the largest arena."""
        return max((program.arena for program in self.programs), default=0)

    @property
    def live(self) -> int:
        """The most bytes that are live at once: no arena is smaller."""
        return max((program.live for program in self.programs), default=0)

    @property
    def arena_held(self) -> int:
        """What the arena takes of the system: ``arena_bytes`` of :meth:`Model.stats` behind a run."""
        return max((program.arena_held for program in self.programs), default=0)

    @property
    def scratch(self) -> int:
        """The most that a task needs for a thread; part of the arena, once for each thread."""
        return max((program.scratch for program in self.programs), default=0)

    @property
    def plans(self) -> int:
        """One plan of each program."""
        return sum(program.plan for program in self.programs)

    @property
    def outputs(self) -> int:
        """New arrays that a run returns, those that one program hands to another included."""
        return sum(program.outputs for program in self.programs)

    @property
    def is_known(self) -> bool:
        """Whether all programs have a plan: no size is left to a run, and there are programs."""
        return bool(self.programs) and all(program.timeline is not None for program in self.programs)

    @cached_property
    def process(self) -> int:
        """The predicted peak of a process that loads the package from its file and runs each of the programs
        once, above one that has imported all of graphwright that this takes. :attr:`not_counted` says what is
        left out.
        """
        held = self.weights + self.packed + self.package + self.states
        return held + self.arena_held + self.plans + self.outputs

    @property
    def not_counted(self) -> tuple[str, ...]:
        """What :attr:`process` leaves out."""
        return NOT_COUNTED

    def facts(self) -> dict[str, Any]:
        """All of it as JSON has it, under keys that stay."""
        totals = ("arena", "arena_held", "live", "scratch", "plans", "outputs", "process", "is_known")
        own = ("weights", "packed", "package", "states", "threads", "plan_cache")
        return {
            **{name: getattr(self, name) for name in (*own, *totals)},
            "not_counted": list(self.not_counted),
            "programs": [_facts(program) for program in self.programs],
        }


def _facts(program: ProgramMemory) -> dict[str, Any]:
    line = program.timeline
    return {
        "name": program.name,
        "shapes": None if program.shapes is None else {k: list(v) for k, v in program.shapes.items()},
        **{
            name: getattr(program, name)
            for name in ("arena", "arena_held", "live", "scratch", "plan", "outputs")
        },
        "peak": None if line is None else line.peak,
        "tasks": [] if line is None else list(line.tasks),
        "live_at": [] if line is None else list(line.live),
        "buffers": [
            {each.name: getattr(buffer, each.name) for each in fields(buffer)} for buffer in program.buffers
        ],
        "at_peak": [] if line is None else [buffer.number for buffer in line.at_peak],
    }


def memory_of(
    package: Package,
    entry: Entry,
    executor: Executor,
    states: Mapping[str, tuple[int, ...]],
    shapes: AnyShapes | None,
    threads: int,
    plan_cache: int,
) -> Memory:
    """The memory of ``entry`` of ``package``, which ``executor`` runs; plans are made, nothing runs.

    ``states``: shapes by name, of those that are known. Raises FeedError for shapes that do not fit.
    """
    plain, packed = _weight_bytes(package)
    dtypes = {spec.name: spec.dtype for spec in entry.states}
    return Memory(
        weights=plain,
        packed=packed,
        package=_package_bytes(package),
        states=sum(prod(states[name]) * dtype.bytes for name, dtype in dtypes.items() if name in states),
        threads=threads,
        plan_cache=plan_cache,
        programs=tuple(
            _program_memory(each, threads)
            for each in executor.plans(_all_shapes(entry, shapes, states), threads)
        ),
    )


def _all_shapes(
    entry: Entry, given: AnyShapes | None, states: Mapping[str, tuple[int, ...]]
) -> tuple[tuple[int, ...], ...] | None:
    """The shapes of all inputs, states too; None where some are open and none was given."""
    own = {spec.name for spec in entry.states}
    known: dict[str, Sequence[int | str | None]] = {n: shape for n, shape in states.items() if n in own}
    known |= _named(entry.feeds, given)
    tensors = [spec for spec in entry.inputs if spec.dtype.element is None]
    if given is None and any(spec.sizes is None and spec.name not in known for spec in tensors):
        return None
    found = input_shapes(tensors, known)
    return tuple(found.get(spec.name, ()) for spec in entry.inputs)


def _named(specs: Sequence[TensorSpec], given: AnyShapes | None) -> dict[str, tuple[int, ...]]:
    """``given`` by name. Raises FeedError for what are no sizes."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        if len(specs) != 1:
            message = f"the model has {len(specs)} inputs: shapes are a dict by name"
            hint = f"the inputs are {', '.join(repr(spec.name) for spec in specs) or 'none'}"
            raise FeedError(Diagnostic("feed-size", message, hint=hint))
        given = {specs[0].name: given}
    try:
        named = {str(name): tuple(index(size) for size in shape) for name, shape in given.items()}
    except TypeError as error:
        raise FeedError(Diagnostic("feed-size", f"shapes are sequences of whole numbers: {error}")) from None
    if negative := [name for name, shape in named.items() if min(shape, default=0) < 0]:
        raise FeedError(Diagnostic("feed-size", f"input {negative[0]!r} has a negative size"))
    return named


def _program_memory(found: ProgramPlan, threads: int) -> ProgramMemory:
    if found.plan is None or found.shapes is None:
        return ProgramMemory(found.name, None, None)
    graph, plan = found.target.task_graph, found.plan
    return ProgramMemory(
        found.name,
        _named_shapes(found.program, found.shapes),
        timeline(graph, plan["sizes"], plan["offsets"], plan["arena"], threads),
        arena_held=plan["arena_held"],
        scratch=max(_scratch_sizes(graph, plan["sizes"]), default=0),
        plan=plan["bytes"],
        outputs=sum(
            prod(shape) * spec.dtype.bytes
            for shape, spec in zip(plan["outputs"], found.program.outputs, strict=True)
        ),
    )


def _named_shapes(program: Program, shapes: Sequence[tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    return {spec.name: tuple(shape) for spec, shape in zip(program.inputs, shapes, strict=True)}


def _scratch_sizes(graph: TaskGraph, sizes: Sequence[int]) -> Iterator[int]:
    for buffer, size in zip(graph.buffers, sizes, strict=True):
        if buffer.storage is Storage.SCRATCH:
            yield size


def _weight_bytes(package: Package) -> tuple[int, int]:
    """Bytes of the weights that lie as the model has them, and of all others, each content once."""
    graphs = [text for entry in package.entries.values() for text in (entry.graph, entry.general)]
    digests = {digest for text in graphs for digest in _PLAIN_CONSTANT.findall(text)}
    lengths = sorted({len(digest) for digest in digests})
    tensors = package.weights.tensors
    plain = 0
    for name, first in firsts_of(tensors).items():
        if name == first and any(name[:length] in digests for length in lengths):
            plain += tensors[name].size
    return plain, len(package.weights.data) - plain


def _package_bytes(package: Package) -> int:
    """What is held of texts, tasks and kernels, and of the copy of the file that these were read from."""
    entries = package.entries.values()
    targets = [target for program in package.programs() for target in program.targets.values()]
    texts = [text for e in entries for text in (e.graph, e.general, e.report, e.decisions, e.remarks)]
    texts += {id(text): text for target in targets for text in target.sources.values()}.values()
    objects = {id(data): data for target in targets for data in target.objects.values()}.values()
    words = sum(len(target.stored.words) for target in targets)
    read = sum(len(text.encode()) for text in texts) + sum(map(len, objects))
    held = sum(map(sys.getsizeof, texts)) + sum(len(data) + _RELOCATED for data in objects)
    return read + held + _COPIES_OF_TASKS * words + _RECORD * len(package.weights.tensors)
