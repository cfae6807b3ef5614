"""A compiled model in memory: what an ``.om`` file holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from graphwright.errors import Diagnostic, PackageError
from graphwright.executable.nodes import Executable, programs_of
from graphwright.executable.specs import TensorSpec
from graphwright.ir.arrays import Array
from graphwright.package.packs import Packs
from graphwright.package.weights import UnpackedWeights, Weights, no_weights
from graphwright.records import dataclass, field

FORMAT = 6
"""Of the file; others are refused."""
WEIGHTS = "weights.safetensors"
SPARE = "graph.safetensors"
GENERAL = "general.txt"
MAIN = "main"
"""The entry that a model runs."""


def own_weights(isa: str) -> str:
    """The member with weights that only the tasks for ``isa`` read."""
    return f"weights/{isa}.safetensors"


@dataclass(frozen=True)
class Package:
    """``graph`` is the fused graph's text. ``entries`` are what runs, by name, on one set of weights: none
    where that is not trusted. ``weights`` are what the tasks read, packed for the first target; ``spare``
    gives what the graph has beside them, which only compiling it again, or saving it, needs."""

    graph: str
    weights: Weights
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    entries: Mapping[str, Executable] = field(default_factory=dict)
    constraints: tuple[str, ...] = ()
    """What the model demands of its sizes."""
    general: str = ""
    """The graph that assumes nothing, where the programs assume something: for the shapes that break a guard
    it is compiled again."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """The source model's own texts."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options that reached the code."""
    report: str = ""
    """What the compiler did, in plain text."""
    signature: str = ""
    """As it was read: whoever signed it, it is written again with it."""
    trusted: bool = True
    """Whether its kernels may run; if not, they were left in the file."""
    spare: Callable[[], Weights | UnpackedWeights] = no_weights
    packs: Mapping[str, Packs] = field(default_factory=dict)
    """The weights of each further target, by ISA."""
    plugins: Mapping[str, str] = field(default_factory=dict)
    """The plugin that brings each op of the graph that graphwright does not have."""

    def lacking(self, op: str, where: str = "") -> PackageError:
        """That ``op`` is not registered: which plugin brings it. ``where`` is the package's file."""
        plugin = self.plugins.get(op)
        if plugin is None:
            message = f"its graph has the op {op!r}, which this version does not have"
            return PackageError(Diagnostic("damaged-package", message, where))
        message = f"it needs the op {op!r} of the plugin {plugin!r}, which is not loaded"
        hint = "--plugin FILE, or graphwright.plugins.load(FILE) before the package is loaded"
        return PackageError(Diagnostic("missing-plugin", message, where, hint))

    @property
    def source(self) -> str:
        """The text of the graph that is compiled again where the programs do not serve."""
        return self.general or self.graph

    @property
    def main(self) -> Executable | None:
        """What a model runs; None where the package holds nothing that runs."""
        return self.entries.get(MAIN)

    @property
    def states(self) -> tuple[TensorSpec, ...]:
        """The inputs that a model keeps from run to run."""
        kept = () if self.main is None else self.main.states
        return tuple(self.inputs[number] for number in kept)

    @property
    def feeds(self) -> tuple[TensorSpec, ...]:
        """The inputs that a run is fed."""
        kept = self.states
        return tuple(spec for spec in self.inputs if spec not in kept)

    def isas(self) -> list[str]:
        """The ISAs that it holds kernels for."""
        programs = (program for entry in self.entries.values() for program in programs_of(entry))
        return sorted({isa for program in programs for isa in program.targets})

    def weights_of(self, isa: str) -> Weights:
        """What the tasks for ``isa`` read. Raises PackageError."""
        return self.packs[isa].weights() if isa in self.packs else self.weights

    def constants(self) -> dict[str, Array]:
        """All constants of the graph, and what the tasks read of others. Raises PackageError."""
        return {**self.weights.arrays, **self.spare().arrays}
