"""Selects kernels for units on which all passes have run, and combines chains of kernels into bands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from graphwright.compiler.run_passes import Observer
from graphwright.compiler.unit import Unit
from graphwright.config import Options
from graphwright.cost.choices import Choices, choices_of
from graphwright.fusion.rules.bands import BANDS
from graphwright.fusion.rules.switches import rule_set
from graphwright.ir.graph import Module
from graphwright.kernels.bands.chains import with_bands
from graphwright.kernels.candidates.generated import GeneratedKernels
from graphwright.kernels.launch import Host, Run, SelectedNode
from graphwright.kernels.merge_similar import merge_similar
from graphwright.kernels.select import Selection, select_kernels
from graphwright.kernels.steps import all_steps
from graphwright.passes.base import Record
from graphwright.records import dataclass, replace
from graphwright.targets.base import Target
from graphwright.targets.cpu.isa import ISAS


@dataclass(frozen=True)
class SelectedUnit:
    """A module with the kernels that compute it, and the records of its passes and of the selection."""

    module: Module
    selection: Selection
    records: Sequence[Record]

    @property
    def steps(self) -> tuple[SelectedNode, ...]:
        return self.selection.steps


def select_units(
    units: Sequence[Unit], target: Target, generated: GeneratedKernels, options: Options, observe: Observer
) -> list[SelectedUnit]:
    """Selects kernels for ``units`` and combines them into bands. Kernels that the library lacks are added to
    ``generated``.
    """
    choices = choices_of(options)
    selected = []
    for unit in units:
        module, graph = unit.module, unit.module.main
        selection = select_kernels(module, graph, target, options.numerics, generated, choices)
        records = (*(unit.records or ()), _selection_record(selection))
        selected.append(SelectedUnit(module, selection, records))
    merged = merge_similar([each.steps for each in selected], generated)
    selected = [_with_steps(each, steps) for each, steps in zip(selected, merged, strict=True)]
    for each in selected:
        observe("select", each.selection)
    banded = [_in_bands(each, target, options, choices) for each in selected]
    for each in banded:
        observe("bands", each.selection)
    return banded


def _with_steps(unit: SelectedUnit, steps: tuple[SelectedNode, ...]) -> SelectedUnit:
    return replace(unit, selection=replace(unit.selection, steps=steps))


def _selection_record(selection: Selection) -> Record:
    """A record of the kernels that were selected for one module."""
    done = {Run: "nodes done by kernels", Host: "nodes run on the host"}
    kinds = (done.get(type(step.action)) for step in all_steps(selection.steps))
    counts = Counter(kind for kind in kinds if kind is not None)
    return Record("select", counts, notes=list(selection.chosen), stage="select")


def _in_bands(unit: SelectedUnit, target: Target, options: Options, choices: Choices) -> SelectedUnit:
    """``unit`` with chains of library kernels combined into bands, and with a record of these decisions."""
    record, module, selection = Record("bands", stage="bands"), unit.module, unit.selection
    if target.library and BANDS.name not in rule_set(options).off:
        isa = ISAS[target.library].on(target.machine)
        steps, record.notes[:] = with_bands(
            module.main, selection.steps, module.symbols, selection.generated, isa, choices
        )
        if joined := len(selection.steps) - len(steps):
            record.did("kernels joined in bands", joined)
        unit = _with_steps(unit, steps)
    return replace(unit, records=(*unit.records, record))
