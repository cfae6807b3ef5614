"""Makes pictures of a compilation while it runs, and of a package."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from graphwright.compiler.recompile import compiled_module, unpacked_module
from graphwright.cost.nominal import nominal
from graphwright.executable.target_code import TargetCode
from graphwright.fusion.decision_text import decode_decisions
from graphwright.ir.graph import Module, sources_of
from graphwright.ir.symbols import SymbolTable
from graphwright.kernels.launch import Alternative
from graphwright.kernels.select import Selection
from graphwright.kernels.steps import all_steps
from graphwright.low_ir.tasks import TaskGraph
from graphwright.lower.lower import Lowered
from graphwright.package.package import Package
from graphwright.passes.after_stage import AfterStage
from graphwright.records import replace
from graphwright.view.document import Compilation, KernelCode
from graphwright.view.module_picture import ModulePicture, picture_of
from graphwright.view.picture import GraphPicture
from graphwright.view.scopes import Path
from graphwright.view.task_picture import TASKS as TASKS
from graphwright.view.task_picture import TaskContext, picture_of_tasks

IMPORTED, LAID_OUT = "imported", "laid-out"
OF_STAGES = {"simplified": "simplified", "fuse": "fused", "schedule": LAID_OUT}
"""The name of the picture after each stage of the pipeline."""
NAMES = (IMPORTED, *OF_STAGES.values(), TASKS)
"""The names of all pictures of a compilation, in order."""
_FUNCTION = re.compile(r"^(?:GW_EXPORT )?int32_t (\w+)\([^;{]*\) \{\n.*?^\}$", re.MULTILINE | re.DOTALL)
"""A kernel in a translation unit."""
_LOOPS = re.compile(r"^kernel (\w+)\(.*?^\}$", re.MULTILINE | re.DOTALL)


class PictureObserver:
    """Observes a compilation (``graphwright.compile(..., observe=...)``) and collects its pictures.

    ``around`` is the name of a pass: two additional pictures show the graph before and after the first run of
    this pass that changed it.
    """

    def __init__(self, around: str = "") -> None:
        self._around = around
        self._before: GraphPicture | None = None
        self._changed: tuple[GraphPicture, GraphPicture] | None = None
        self._graphs: dict[str, ModulePicture] = {}
        self._sources: dict[str, tuple[str, ...]] = {}
        self._programs: list[TaskGraph] = []
        self._scopes: dict[str, Path] = {}
        self._alternatives: dict[str, Sequence[Alternative]] = {}

    def __call__(self, name: str, product: object) -> None:
        if isinstance(product, Module):
            self._scopes |= product.scopes
        if self._around and isinstance(product, Module) and self._changed is None:
            self._compare(name, product)
        if name == "import" and isinstance(product, Module):
            self._add(IMPORTED, product)
        elif name in OF_STAGES and isinstance(product, AfterStage):
            self._add(OF_STAGES[name], product.module)
        elif isinstance(product, Selection):
            self._keep_steps(product)
        elif isinstance(product, Lowered):
            self._programs.append(product.tasks)

    @property
    def changed(self) -> tuple[GraphPicture, GraphPicture] | None:
        """The graph before and after the pass; None if it changed nothing, or did not run."""
        return self._changed

    def _compare(self, name: str, module: Module) -> None:
        after = picture_of(f"after {self._around}", module, self._scopes)
        before, self._before = self._before, after
        if name == self._around and before is not None and before != after:
            self._changed = replace(before, stage=f"before {self._around}"), after
            self._before = None

    def pictures(
        self, sizes: Mapping[str, Sequence[int]] | None = None, measured_ns: Mapping[int, float] | None = None
    ) -> list[GraphPicture]:
        """All pictures, in the order of the stages; for the arguments, see :class:`TaskContext`."""
        found = [self._graphs[name].picture() for name in NAMES if name in self._graphs]
        if self._programs:
            context = TaskContext(
                self._sources, self._alternatives, sizes or {}, measured_ns or {}, self._scopes
            )
            found.append(picture_of_tasks(self._programs, context))
        return found

    def _add(self, stage: str, module: Module) -> None:
        self._graphs.setdefault(stage, ModulePicture(stage, self._scopes)).add(module)

    def _keep_steps(self, selection: Selection) -> None:
        for step in all_steps(selection.steps):
            nodes = (*step.before, step.node)
            self._alternatives[step.location] = step.alternatives
            self._sources[step.location] = sources_of(nodes)


def pictures_of_package(
    package: Package,
    sizes: Mapping[str, Sequence[int]] | None = None,
    measured_ns: Mapping[int, float] | None = None,
) -> list[GraphPicture]:
    """Pictures of the main entry of ``package``: its fused graph with layouts, and its tasks.

    Raises PackageError if the package is damaged.
    """
    module = compiled_module(package)
    graph = ModulePicture(LAID_OUT)
    graph.add(module)
    sources = {node.location: node.sources for node in module.walk()}
    context = TaskContext(sources, sizes=sizes or {}, measured_ns=measured_ns or {})
    programs = [target.task_graph for target in targets_of(package)]
    tasks = [picture_of_tasks(programs, context)] if programs else []
    return [graph.picture(), *tasks]


def compilation_of(title: str, package: Package, pictures: Sequence[GraphPicture]) -> Compilation:
    """``pictures`` with the decisions and kernels of the main entry of ``package``. Raises PackageError."""
    decisions = decode_decisions(package.main.decisions)
    symbols = unpacked_module(package).symbols if decisions else SymbolTable()
    saved = [0 if each.bytes_saved is None else nominal(each.bytes_saved, symbols) for each in decisions]
    return Compilation(title, pictures, list(zip(decisions, saved, strict=True)), kernels_of(package))


def targets_of(package: Package) -> list[TargetCode]:
    """The code of each program of the main entry for its first target."""
    return [target for program in package.main.programs() for target in list(program.targets.values())[:1]]


def kernels_of(package: Package) -> dict[str, KernelCode]:
    """The code of the generated kernels that the main entry launches, by symbol."""
    found: dict[str, KernelCode] = {}
    for target in targets_of(package):
        loops = {
            match[1]: match[0].rstrip()
            for name, text in target.sources.items()
            if name.endswith(".loops")
            for match in _LOOPS.finditer(text)
        }
        launched = {kernel.symbol for kernel in target.task_graph.kernels if kernel.module}
        for name, text in target.sources.items():
            for match in _FUNCTION.finditer("" if name.endswith(".loops") else text):
                if match[1] in launched:  # without those of the standalone check
                    found[match[1]] = KernelCode(match[0], loops.get(match[1], ""))
    return found
