"""Decides which chains of convolutions run in bands of rows, and makes one launch of each."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from graphwright.cost.choices import Choices
from graphwright.cost.nominal import nominal_sizes
from graphwright.fusion.decisions import Decision, Edit, Kind, Verdict
from graphwright.ir.graph import Graph, Node, Value
from graphwright.ir.interfaces.arithmetic import operations_of
from graphwright.ir.refusal import Code, Refusal
from graphwright.ir.symbols import Dim, SymbolTable, maximum, minimum, names_in
from graphwright.kernels.bands import bands
from graphwright.kernels.bands.benefit import Costed, rows_of_band, saved_ns, worth_banding
from graphwright.kernels.bands.choices import APART, alternatives_of
from graphwright.kernels.bands.links import Link, link_of
from graphwright.kernels.candidates.generated import GeneratedKernels
from graphwright.kernels.launch import Launch, Run, SelectedNode, run_either
from graphwright.kernels.ref import KernelRef
from graphwright.kernels.steps import all_steps, step_values
from graphwright.records import dataclass, replace
from graphwright.targets.cpu.isa import Isa

_LARGE_SIZES: Final = (640, 2048)
"""Nominal values of symbolic sizes: bands pay off for large images."""
_TAKEN: Final = Refusal(Code.BANDED, "rule bands")
_NOT_PAYING: Final = Refusal(
    Code.BAND_COST, "the time to move the intermediate image is small compared to that of the kernels"
)
_SLOWER: Final = Refusal(Code.MEASURED, Code.MEASURED.means)


def with_bands(
    graph: Graph,
    steps: Sequence[SelectedNode],
    symbols: SymbolTable,
    generated: GeneratedKernels,
    isa: Isa,
    choices: Choices,
) -> tuple[tuple[SelectedNode, ...], list[object]]:
    """``steps`` with profitable chains merged into steps that run in bands, and notes about the decisions for
    each chain.
    """
    kernels = {kernel.name: kernel for kernel, _ in generated.kernels()}
    links = [link for step in steps if (link := link_of(step, kernels)) is not None]
    reads = Counter(value for step in all_steps(steps) for value in step_values(step))
    reads.update(graph.outputs)
    follows, decided = _neighbors(links, reads, isa)
    notes: list[object] = [*decided]
    banded: dict[Node, SelectedNode | None] = {}
    for chain in _chains(follows):
        plan = _plan(isa, chain, worth_banding(isa, _forms(chain, symbols)), choices, notes)
        for part, rows in plan.parts:
            banded |= dict.fromkeys((link.step.node for link in chain[part]), None)
            banded[chain[part][-1].step.node] = _banded(isa, chain[part], rows)
            notes.append(_decision(isa, chain[part], _TAKEN, plan.measured))
        for k in range(len(chain) - 1):
            if not any(part.start <= k and k + 1 < part.stop for part, _ in plan.parts):
                measured = plan.measured if len(chain) == 2 else None
                notes.append(_decision(isa, chain[k : k + 2], plan.refused, measured))
    kept = (banded.get(step.node, step) for step in steps)
    return tuple(step for step in kept if step is not None), notes


def _forms(chain: Sequence[Link], symbols: SymbolTable) -> list[list[Costed]]:
    """The stages of ``chain`` with numbers for all sizes: one form for each guess of unknown ones."""
    costed = [link.costed for link in chain]
    names = names_in(*(size for stage in costed for size in stage.sizes))
    guesses = [nominal_sizes(names, symbols, unknown) for unknown in (_LARGE_SIZES if names else (0,))]
    return [[stage.with_sizes(values) for stage in costed] for values in guesses]


@dataclass(frozen=True)
class _Plan:
    """The decision which parts of a chain run in bands."""

    parts: Sequence[tuple[slice, Dim | None]]
    """The parts that run in bands, with the number of rows of a band if it was measured."""
    refused: Refusal = _NOT_PAYING
    """The reason for which the other parts do not run in bands."""
    measured: float | None = None
    """The logarithm of the time with bands relative to the time without, if it was measured for one part."""


def _plan(
    isa: Isa, chain: Sequence[Link], predicted: Sequence[slice], choices: Choices, notes: list[object]
) -> _Plan:
    """The predicted plan for ``chain``, or the measured one if all sizes are known."""
    stages = [link.stage for link in chain]
    if not choices.is_kept or not all(isinstance(arg, int) for stage in stages for arg in stage.args):
        return _Plan([(part, None) for part in predicted])
    alternatives = alternatives_of(isa, stages, predicted)
    kernels = [link.launch.hook and link.launch.hook.kernel.symbol.rpartition("_")[0] for link in chain]
    nodes = [link.step.node for link in chain]
    choice = choices.choose("bands", (tuple(stages), tuple(kernels)), list(alternatives), nodes, notes)
    parts = [(slice(part.begin, part.end), part.rows) for part in alternatives[choice.taken]]
    single = [
        name for name, held in alternatives.items() if len(held) == 1 and (not parts or name == choice.taken)
    ]
    ratios = [ratio for name in single if (ratio := choice.ratio(name, APART)) is not None]
    refused = _SLOWER if choice.is_changed else _NOT_PAYING
    return _Plan(parts, refused, math.log(min(ratios)) if ratios else None)


def _decision(isa: Isa, chain: Sequence[Link], outcome: Refusal, measured: float | None = None) -> Decision:
    """The decision about a chain, with a predicted time if all sizes are known."""
    nodes = [link.step.node for link in chain]
    saved: Dim = sum((2 * link.result.bytes for link in chain[:-1]), 0)
    costed = [link.costed for link in chain]
    work: Dim = sum((stage.work for stage in costed), 0)
    predicted = None
    if isinstance(work, int) and work > 0 and isinstance(gain := saved_ns(isa, costed), int):
        predicted = math.log1p(-gain / work)
    edit = Edit(Kind.BAND, tuple(node.location for node in nodes))
    verdict = Verdict.TAKEN if outcome is _TAKEN else Verdict.REFUSED
    sources = tuple(node.sources for node in nodes)
    return Decision(edit, verdict, outcome.code, outcome.why, saved, predicted, measured, sources)


def _work(chain: Sequence[Link]) -> Dim:
    return sum((link.launch.work for link in chain), 0)


def _neighbors(
    links: Sequence[Link], reads: Counter[Value], isa: Isa
) -> tuple[dict[Link, Link], list[Decision]]:
    """The next link of each link in a chain, and the decisions about links that cannot follow their
    producer.
    """
    makers = {link.result: link for link in links}
    follows: dict[Link, Link] = {}
    decisions: list[Decision] = []
    for link in links:
        before = makers.get(link.x) if link.x is not None else None
        if before is None:
            continue
        refusal = _refusal(before, link, reads, isa)
        if refusal is None:
            follows[before] = link
        else:
            decisions.append(_decision(isa, (before, link), refusal))
    return follows, decisions


def _refusal(before: Link, link: Link, reads: Counter[Value], isa: Isa) -> Refusal | None:
    """Why two links are not run in bands; None if they can be."""
    if reads[before.result] > 1:
        return Refusal(Code.BAND_READ, "another node or the caller reads the intermediate image as well")
    if not before.can_be_inner:
        return Refusal(Code.BAND_RESULT, "its epilogue reads another image, or its result is not in blocks")
    if bands.is_bit_identical([before.stage, link.stage]) == 0:
        return Refusal(Code.BAND_SHORT_ROWS, f"its rows have only {link.stage.sizes.ow} pixels")
    if before.stage.image_written(isa.lanes) != link.stage.image_read(isa.lanes):
        return Refusal(Code.BAND_IMAGE, "one of the kernels joins rows of the image")
    return None


def _chains(follows: Mapping[Link, Link]) -> Iterator[list[Link]]:
    begun = set(follows.values())
    for first in follows:
        if first not in begun:
            chain = [first]
            while chain[-1] in follows:
                chain.append(follows[chain[-1]])
            yield chain


def _banded(isa: Isa, chain: Sequence[Link], rows: Dim | None) -> SelectedNode:
    """The step that runs a whole chain: in bands, or stage by stage for sizes at which bands do not pay off.
    ``rows`` is the number of rows of a band if bands were measured to be faster, else None.
    """
    launch, before = _launch(isa, chain, rows), tuple(link.step.node for link in chain[:-1])
    if rows is not None:
        return replace(chain[-1].step, action=Run((launch,)), before=before)
    gains = minimum(1, maximum(0, saved_ns(isa, [link.costed for link in chain])))
    pays = gains * bands.is_bit_identical([link.stage for link in chain])
    if pays == 1:
        return replace(chain[-1].step, action=Run((launch,)), before=before)
    apart = [(link.launch, operations_of(link.step.node)) for link in chain]
    both = run_either(pays, launch, apart, tuple(link.result for link in chain[:-1]))
    return replace(chain[-1].step, action=both, before=before)


def _launch(isa: Isa, chain: Sequence[Link], rows: Dim | None) -> Launch:
    last = chain[-1]
    stages = [*(link.inner_stage for link in chain[:-1]), last.stage]
    rows = rows_of_band(isa, stages) if rows is None else rows
    inner = {link.result for link in chain[:-1]}
    operands = [None if operand in inner else operand for link in chain for operand in link.operands]
    first = len(operands) - len(last.operands)
    return Launch(
        KernelRef(bands.SYMBOL),
        tuple(operands),
        tuple(first + k for k in last.writes),
        bands.arguments(isa, stages, rows),
        bands.grid(stages, rows),
        bands.ring_bytes(isa, stages, rows) + bands.stage_scratch_bytes(isa, stages, rows),
        _work(chain),
        in_place=last.launch.in_place,
    )
