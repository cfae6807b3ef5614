"""Predicts the memory of a model: what it holds, and what a run adds, as far as known without running."""

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
from graphwright.low_ir.tasks import Storage, TaskGraph
from graphwright.memory.timeline import PlacedBuffer, Timeline, timeline
from graphwright.package.package import Entry, Package
from graphwright.package.weights_header import first_at_location
from graphwright.records import dataclass, fields
from graphwright.runtime.executor import Executor, ProgramPlan
from graphwright.runtime.feeds.input_shapes import input_shapes

AnyShapes = Mapping[str, Sequence[int]] | Sequence[int]
"""Shapes of inputs by name, or that of the only input."""
NOT_COUNTED: Final = (
    "the interpreter, NumPy, the modules of graphwright, and the threads of its pool",
    "inputs, which belong to the caller",
    "memory-mapped files: code of libraries and of kernels, weights that are loaded with mmap=True",
    "a second run at the same time, which needs an arena of its own",
    "the compiler and the source model, if the model was compiled in this process",
    "values between programs, and nodes that run in Python",
)
"""The memory that :attr:`Memory.process` does not count."""
_COPIES_OF_WORDS: Final = 2
"""How many times the words of tasks are held: in Python, and in the form that the native runtime decodes."""
_PARSED: Final = 9
"""Bytes per byte of the JSON text of tasks while it is parsed, when a program is loaded: decoded text, lists
and integers of Python. The process keeps the memory; one program after the other uses it.
"""
_TASK: Final = 600
"""Bytes per task: the names of its source nodes, and what a crash in its kernel reports."""
_RELOCATED: Final = 8192
"""Bytes of a shared object that relocation writes when it is loaded: two pages of address tables."""
_RECORD: Final = 512
"""Bytes of metadata per tensor: its digest in the manifest, its line in the header, and its location."""
_PLAIN_CONSTANT: Final = re.compile(
    r"^ *%\S+ = Constant\[value=#([0-9a-f]+)\]: \w+\[[^]]*\](?! layout\()", re.MULTILINE
)
"""Matches a constant in the text of a graph that is stored unpacked, by the prefix of its digest."""


@dataclass(frozen=True)
class ProgramMemory:
    """The memory that a run of one program needs besides weights; sizes in bytes.

    ``shapes`` are the shapes of its inputs. They and ``timeline`` are None, and all sizes 0, if only a run
    knows them: they are data-dependent, or symbolic and were not given.
    """

    name: str
    """Distinguishes it from other programs of the model; empty if it is the only one."""
    shapes: Mapping[str, tuple[int, ...]] | None
    timeline: Timeline | None
    arena_held: int = 0
    """The size of the arena rounded up to whole pages, as allocated."""
    scratch: int = 0
    """The most scratch memory that a task needs per thread; it is part of the arena, once for each thread."""
    plan: int = 0
    """The plan itself: sizes, offsets and task arguments for these shapes."""
    outputs: int = 0
    """New arrays that a run returns."""

    @property
    def arena(self) -> int:
        """The size of the arena."""
        return 0 if self.timeline is None else self.timeline.arena

    @property
    def live(self) -> int:
        """The most bytes that are live at once: no arena is smaller."""
        return 0 if self.timeline is None else self.timeline.live_bytes

    @property
    def buffers(self) -> tuple[PlacedBuffer, ...]:
        """The buffers in the arena."""
        return () if self.timeline is None else self.timeline.buffers


@dataclass(frozen=True)
class Memory:
    """The memory of a model and of one run; sizes in bytes.

    Programs of a model run one at a time and share an arena, which is as large as the largest needs.
    """

    weights: int
    """Weights that kernels read in the layout of the source model."""
    packed: int
    """Weights that are repacked or transformed for kernels, such as Winograd filters, and lookup tables."""
    package: int
    """Texts, tasks and kernels of the package, and the copy of the file that they were read from."""
    states: int
    """Arrays that are kept between runs."""
    threads: int
    """The number of threads of a run."""
    plan_cache: int
    """The most plans that each program caches."""
    programs: tuple[ProgramMemory, ...]

    @property
    def arena(self) -> int:
        """The size of the largest arena."""
        return max((program.arena for program in self.programs), default=0)

    @property
    def live(self) -> int:
        """The most bytes that are live at once: no arena is smaller."""
        return max((program.live for program in self.programs), default=0)

    @property
    def arena_held(self) -> int:
        """The arena as allocated in whole pages: ``arena_bytes`` of :meth:`Model.stats` after a run."""
        return max((program.arena_held for program in self.programs), default=0)

    @property
    def scratch(self) -> int:
        """The most scratch memory that a task needs per thread; it is part of the arena, once for each
        thread.
        """
        return max((program.scratch for program in self.programs), default=0)

    @property
    def plans(self) -> int:
        """One plan of each program."""
        return sum(program.plan for program in self.programs)

    @property
    def outputs(self) -> int:
        """New arrays that a run returns, including those that one program passes to another."""
        return sum(program.outputs for program in self.programs)

    @property
    def is_known(self) -> bool:
        """Whether there are programs and all of them have a plan, so that no size is unknown before a run."""
        return bool(self.programs) and all(program.timeline is not None for program in self.programs)

    @cached_property
    def process(self) -> int:
        """The predicted peak memory of a process that loads the package from its file and runs each program
        once, minus the memory of a process that only imports the same modules. :attr:`not_counted` lists what
        is excluded.
        """
        held = self.weights + self.packed + self.package + self.states
        return held + self.arena_held + self.plans + self.outputs

    @property
    def not_counted(self) -> tuple[str, ...]:
        """The memory that :attr:`process` does not count."""
        return NOT_COUNTED

    def facts(self) -> dict[str, Any]:
        """All values as a JSON object with stable keys."""
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
    """The memory of ``entry`` of ``package``, which ``executor`` runs. It makes plans but runs nothing.

    ``states`` are the known shapes of states by name; ``plan_cache`` is the most plans that each program
    caches. Raises FeedError for shapes that do not fit.
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
    """The shapes of all inputs, including states; None if some are symbolic and no shape was given."""
    own = {spec.name for spec in entry.states}
    known: dict[str, Sequence[int | str | None]] = {n: shape for n, shape in states.items() if n in own}
    known |= _named(entry.feeds, given)
    if given is None and any(spec.sizes is None and spec.name not in known for spec in entry.inputs):
        return None
    found = input_shapes(entry.inputs, known, entry.constraints)
    return tuple(found[spec.name] for spec in entry.inputs)


def _named(specs: Sequence[TensorSpec], given: AnyShapes | None) -> dict[str, tuple[int, ...]]:
    """``given`` as a dict by name. Raises FeedError for sizes that are not non-negative integers."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        if len(specs) != 1:
            message = f"the model has {len(specs)} inputs: shapes must be a dict by name"
            hint = f"the inputs are {', '.join(repr(spec.name) for spec in specs) or 'none'}"
            raise FeedError(Diagnostic("feed-size", message, hint=hint))
        given = {specs[0].name: given}
    try:
        named = {str(name): tuple(index(size) for size in shape) for name, shape in given.items()}
    except TypeError as error:
        raise FeedError(Diagnostic("feed-size", f"shapes must be sequences of integers: {error}")) from None
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
    """Bytes of the weights in the layout of the source model, and of all other weights; each content counts
    once.
    """
    graphs = [text for entry in package.entries.values() for text in (entry.graph, entry.general)]
    digests = {digest for text in graphs for digest in _PLAIN_CONSTANT.findall(text)}
    lengths = sorted({len(digest) for digest in digests})
    tensors = package.weights.tensors
    plain = 0
    for name, first in first_at_location(tensors).items():
        if name == first and any(name[:length] in digests for length in lengths):
            plain += tensors[name].size
    return plain, len(package.weights.data) - plain


def _package_bytes(package: Package) -> int:
    """Bytes of texts, tasks and kernels, and of the copy of the file that these were read from."""
    entries = package.entries.values()
    targets = [target for program in package.programs() for target in program.targets.values()]
    texts = [text for e in entries for text in (e.graph, e.general, e.report, e.decisions, e.remarks)]
    texts += {id(text): text for target in targets for text in target.sources.values()}.values()
    objects = {id(data): data for target in targets for data in target.objects.values()}.values()
    words = sum(len(target.stored.words) for target in targets)
    tasks = [len(target.stored.data) for target in targets]
    read = sum(len(text.encode()) for text in texts) + sum(map(len, objects))
    held = sum(map(sys.getsizeof, texts)) + sum(len(data) + _RELOCATED for data in objects)
    parsed = sum(tasks) + _PARSED * max(tasks, default=0) + _COPIES_OF_WORDS * words
    records = _TASK * sum(len(target.stored.launches) for target in targets)
    records += _RECORD * len(package.weights.tensors)
    return read + held + parsed + records
