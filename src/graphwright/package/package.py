"""A compiled model in memory: what an ``.om`` file holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from graphwright.errors import Diagnostic, PackageError
from graphwright.executable.nodes import Executable, Program, programs_of
from graphwright.executable.specs import TensorSpec
from graphwright.ir.arrays import Array, is_repeated
from graphwright.package.packs import Packs
from graphwright.package.weights import UnpackedWeights, Weights, no_weights
from graphwright.records import dataclass, field, replace

FORMAT = 8
"""Of the file; others are refused."""
WEIGHTS = "weights.safetensors"
SPARE = "graph.safetensors"
GRAPH, GENERAL, REPORT = "graph.txt", "general.txt", "report.txt"
DECISIONS, REMARKS = "decisions.json", "remarks.json"
"""Texts in the folder of an entry."""
MAIN = "main"
"""What the entry of a model with one is called."""


def folder_of(entry: str) -> str:
    """The folder of an entry of that name."""
    return f"entries/{entry}"


def own_weights(isa: str) -> str:
    """The member with weights that only the tasks for ``isa`` read."""
    return f"weights/{isa}.safetensors"


@dataclass(frozen=True)
class Entry:
    """What runs under one name: a graph with its inputs and outputs, and what it was compiled to."""

    graph: str
    """The text of the fused graph."""
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    executable: Executable | None = None
    """None where the package is not trusted."""
    constraints: tuple[str, ...] = ()
    """What the graph demands of its sizes."""
    general: str = ""
    """The graph that assumes nothing, where the programs assume something: for the shapes that break a guard
    it is compiled again."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """The source model's own texts."""
    report: str = ""
    """What the compiler did, in plain text."""
    decisions: str = ""
    """What was decided about fusion, and why: see ``fusion/decision_text.py``."""
    remarks: str = ""
    """What passes did and declined, and what layouts and kernels were chosen from: see
    ``compiler/remark_text.py``."""
    starts: Mapping[str, str] = field(default_factory=dict)
    """States that do not start as zeros, and what they start as: a tensor of the weights, by digest."""

    @property
    def source(self) -> str:
        """The text of the graph that is compiled again where the programs do not serve."""
        return self.general or self.graph

    def programs(self) -> list[Program]:
        """Its programs, in the order in which a file numbers them."""
        return [] if self.executable is None else list(programs_of(self.executable))

    @property
    def states(self) -> tuple[TensorSpec, ...]:
        """The inputs that a model keeps from run to run."""
        kept = () if self.executable is None else self.executable.states
        return tuple(self.inputs[number] for number in kept)

    @property
    def feeds(self) -> tuple[TensorSpec, ...]:
        """The inputs that a run is fed."""
        kept = self.states
        return tuple(spec for spec in self.inputs if spec not in kept)


@dataclass(frozen=True)
class Package:
    """``entries`` are what runs, by name, on one set of weights; the first is the main one. ``weights`` are
    what the tasks read, packed for the first target; ``spare`` gives what the graphs have beside them, which
    only compiling them again, or saving them, needs."""

    entries: Mapping[str, Entry]
    weights: Weights
    options: Mapping[str, str] = field(default_factory=dict)
    """Options that reached the code."""
    signature: str = ""
    """As it was read: whoever signed it, it is written again with it."""
    trusted: bool = True
    """Whether its kernels may run; if not, they were left in the file."""
    spare: Callable[[], Weights | UnpackedWeights] = no_weights
    packs: Mapping[str, Packs] = field(default_factory=dict)
    """The weights of each further target, by ISA."""
    plugins: Mapping[str, str] = field(default_factory=dict)
    """The plugin that brings each op of the graphs that graphwright does not have."""

    @property
    def main(self) -> Entry:
        """The first entry."""
        return next(iter(self.entries.values()))

    def only(self, name: str) -> Package:
        """The package of one entry alone, on the weights of all. Raises KeyError."""
        return replace(self, entries={name: self.entries[name]})

    def with_main(self, entry: Entry) -> Package:
        """The package with another entry in place of the first."""
        return replace(self, entries={**self.entries, next(iter(self.entries)): entry})

    def with_own_memory(self) -> Package:
        """The package without memory of the source model, whose owner may write to it."""
        arrays = self.spare().arrays
        held = {name: a if is_repeated(a) else a.copy() for name, a in arrays.items()}
        return replace(self, spare=partial(UnpackedWeights, held))

    def lacking(self, op: str, where: str = "") -> PackageError:
        """That ``op`` is not registered: which plugin brings it. ``where`` is the package's file."""
        plugin = self.plugins.get(op)
        if plugin is None:
            message = f"its graph has the op {op!r}, which this version does not have"
            return PackageError(Diagnostic("damaged-package", message, where))
        message = f"it needs the op {op!r} of the plugin {plugin!r}, which is not loaded"
        hint = "--plugin FILE, or graphwright.plugins.load(FILE) before the package is loaded"
        return PackageError(Diagnostic("missing-plugin", message, where, hint))

    def programs(self) -> list[Program]:
        """The programs of all entries."""
        return [program for entry in self.entries.values() for program in entry.programs()]

    def isas(self) -> list[str]:
        """The ISAs that it holds kernels for."""
        return sorted({isa for program in self.programs() for isa in program.targets})

    def weights_of(self, isa: str) -> Weights:
        """What the tasks for ``isa`` read. Raises PackageError."""
        return self.packs[isa].weights() if isa in self.packs else self.weights

    def starts(self) -> dict[str, Array]:
        """What states start as that do not start as zeros, by name."""
        named = {name: ref for entry in self.entries.values() for name, ref in entry.starts.items()}
        return {name: self.weights.arrays[ref] for name, ref in named.items()}

    def constants(self) -> dict[str, Array]:
        """All constants of the graphs, and what the tasks read of others. Raises PackageError."""
        return {**self.weights.arrays, **self.spare().arrays}
