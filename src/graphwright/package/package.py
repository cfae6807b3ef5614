"""A compiled model in memory: the contents of an ``.om`` file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from graphwright.errors import Diagnostic, PackageError
from graphwright.executable.nodes import Executable, Program, programs_of
from graphwright.executable.specs import TensorSpec
from graphwright.ir.arrays import Array, is_repeated
from graphwright.package.pack_weights import UnpackedWeights, no_weights
from graphwright.package.repacked_weights import Packs
from graphwright.package.weights import Weights
from graphwright.records import dataclass, field, replace

FORMAT = 8
"""The version of the file format; files of other versions are rejected."""
WEIGHTS = "weights.safetensors"
SPARE = "graph.safetensors"
GRAPH, GENERAL, REPORT = "graph.txt", "general.txt", "report.txt"
DECISIONS, REMARKS = "decisions.json", "remarks.json"
"""Text members in the folder of an entry."""
MAIN = "main"
"""The name of the only entry of a model."""


def folder_of(entry: str) -> str:
    """The folder of the entry ``entry`` in the archive."""
    return f"entries/{entry}"


def own_weights(isa: str) -> str:
    """The member with weights that only the tasks for ``isa`` read."""
    return f"weights/{isa}.safetensors"


@dataclass(frozen=True)
class Entry:
    """A named entry point: a graph with its inputs and outputs, and the executable that it was
    compiled to.
    """

    graph: str
    """The text of the fused graph."""
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    executable: Executable | None = None
    """None if the package is not trusted."""
    constraints: tuple[str, ...] = ()
    """Constraints of the graph on its sizes."""
    general: str = ""
    """The graph without assumptions about sizes, if the programs assume something: it is compiled for shapes
    that violate a guard.
    """
    metadata: Mapping[str, str] = field(default_factory=dict)
    """The metadata of the source model."""
    report: str = ""
    """What the compiler did, in plain text."""
    decisions: str = ""
    """Fusion decisions with their reasons: see ``fusion/decision_text.py``."""
    remarks: str = ""
    """What passes did and declined, and the candidates of layouts and kernels: see
    ``compiler/remark_text.py``.
    """
    starts: Mapping[str, str] = field(default_factory=dict)
    """The initial values of states that do not start as zeros: tensors of the weights, by digest."""

    @property
    def source(self) -> str:
        """The text of the graph that is compiled for shapes that no program accepts."""
        return self.general or self.graph

    def programs(self) -> list[Program]:
        """Its programs, in the order of their numbers in a file."""
        return [] if self.executable is None else list(programs_of(self.executable))

    @property
    def states(self) -> tuple[TensorSpec, ...]:
        """The inputs that are states, kept between runs."""
        kept = () if self.executable is None else self.executable.states
        return tuple(self.inputs[number] for number in kept)

    @property
    def feeds(self) -> tuple[TensorSpec, ...]:
        """The inputs that the caller feeds."""
        kept = self.states
        return tuple(spec for spec in self.inputs if spec not in kept)


@dataclass(frozen=True)
class Package:
    """A compiled model. ``entries`` are its entry points by name, the main one first; they share the weights.

    ``weights`` are the constants that tasks read, packed for the first target. ``spare`` returns the other
    constants of the graphs, which are only needed to compile the graphs again, or to save them.
    """

    entries: Mapping[str, Entry]
    weights: Weights
    options: Mapping[str, str] = field(default_factory=dict)
    """The options that affect the code."""
    signature: str = ""
    """The signature that the file had, which is kept when it is written again."""
    trusted: bool = True
    """Whether its kernels may run; if not, they were not read."""
    spare: Callable[[], Weights | UnpackedWeights] = no_weights
    packs: Mapping[str, Packs] = field(default_factory=dict)
    """The weights of the other targets, by ISA."""
    plugins: Mapping[str, str] = field(default_factory=dict)
    """For each op that is not graphwright's own, the plugin that defines it."""

    @property
    def main(self) -> Entry:
        """The first entry."""
        return next(iter(self.entries.values()))

    def only(self, name: str) -> Package:
        """A package with one entry and the weights of all. Raises KeyError."""
        return replace(self, entries={name: self.entries[name]})

    def with_main(self, entry: Entry) -> Package:
        """The package with its first entry replaced."""
        return replace(self, entries={**self.entries, next(iter(self.entries)): entry})

    def with_own_memory(self) -> Package:
        """The package with copies of constants that share memory with the source model, which may change."""
        arrays = self.spare().arrays
        held = {name: a if is_repeated(a) else a.copy() for name, a in arrays.items()}
        return replace(self, spare=partial(UnpackedWeights, held))

    def lacking(self, op: str, where: str = "") -> PackageError:
        """The error for an op that is not registered, with the plugin that defines it. ``where`` is
        the file.
        """
        plugin = self.plugins.get(op)
        if plugin is None:
            message = f"its graph has the op {op!r}, which this version does not have"
            return PackageError(Diagnostic("damaged-package", message, where, "compile the model again"))
        message = f"it needs the op {op!r} of the plugin {plugin!r}, which is not loaded"
        hint = "load it with --plugin FILE, or call graphwright.plugins.load(FILE) before loading the package"
        return PackageError(Diagnostic("missing-plugin", message, where, hint))

    def programs(self) -> list[Program]:
        """The programs of all entries."""
        return [program for entry in self.entries.values() for program in entry.programs()]

    def isas(self) -> list[str]:
        """The ISAs that it has code for."""
        return sorted({isa for program in self.programs() for isa in program.targets})

    def weights_of(self, isa: str) -> Weights:
        """The weights that the tasks for ``isa`` read. Raises PackageError."""
        return self.packs[isa].weights() if isa in self.packs else self.weights

    def starts(self) -> dict[str, Array]:
        """The initial values of states that do not start as zeros, by name."""
        named = {name: ref for entry in self.entries.values() for name, ref in entry.starts.items()}
        return {name: self.weights.arrays[ref] for name, ref in named.items()}

    def constants(self) -> dict[str, Array]:
        """All constants by digest: those of the graphs, and others that tasks read. Raises PackageError."""
        return {**self.weights.arrays, **self.spare().arrays}
