"""Chooses the kernel candidate for a node that is predicted to be the fastest."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.cost.nominal import nominal
from graphwright.cost.predict import Work, predict
from graphwright.ir.graph import Node
from graphwright.ir.op.plugin_ops import is_plugin_op
from graphwright.ir.symbols import Dim
from graphwright.kernels.candidates.attempt import attempt
from graphwright.kernels.candidates.context import Candidate, Context
from graphwright.kernels.candidates.generated import GENERATED, Addition
from graphwright.kernels.candidates.registry import candidates_of
from graphwright.kernels.kernel_choice import KernelChoice, NotTaken, WhyNot
from graphwright.kernels.launch import Alias, Alternative, Copy, Launch, Run
from graphwright.records import dataclass, replace


@dataclass(frozen=True)
class Offer:
    """The result of a candidate for a node, and what it adds to the generated kernels."""

    action: Run | Alias
    additions: Sequence[Addition]
    ns: int = 0
    """The predicted time on one core in nanoseconds, if it is not the only offer."""
    weighed: tuple[NotTaken, ...] = ()
    """The alternatives that the candidate itself did not take."""


@dataclass(frozen=True)
class Choice:
    """How a node is computed, and the alternatives."""

    action: Run | Alias | None
    """None if no candidate applies."""
    offers: tuple[Offer, ...]
    """The offers of all candidates that apply, with the chosen one first."""
    refused: tuple[NotTaken, ...]
    """The candidates that do not apply, or were not asked."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons why other candidates do not apply."""
        return tuple(each.why for each in self.refused if each.code is WhyNot.ILLEGAL)

    @property
    def others(self) -> tuple[NotTaken, ...]:
        """All alternatives that were not taken, the fastest first."""
        weighed = [each for offer in self.offers[:1] for each in offer.weighed]
        slower = [each for each in map(self._slower, self.offers[1:]) if each is not None]
        return tuple(dict.fromkeys((*slower, *weighed, *self.refused)))

    def _slower(self, offer: Offer) -> NotTaken | None:
        taken, names = self.offers[0], _names(offer.action, kept=False)
        code = WhyNot.COST if offer.ns >= taken.ns else WhyNot.MEASURED
        return NotTaken(" + ".join(names), code, ns=offer.ns) if names else None

    def remark(self, node: Node) -> KernelChoice | None:
        """The remark about the choice for reports; None if there was no alternative."""
        if not self.others:
            return None
        taken = self.offers[0] if self.offers else None
        compared = taken is not None and any(each.ns is not None for each in self.others)
        names = () if taken is None else _names(taken.action)
        return KernelChoice(node.location, names, taken.ns if taken and compared else None, self.others)

    @property
    def alternatives(self) -> tuple[Alternative, ...]:
        """The offers as alternatives for reports, if there is more than one."""
        if len(self.offers) < 2:
            return ()
        taken, *others = self.offers
        named = (_names(taken.action), *(_names(offer.action, kept=False) for offer in others))
        return tuple(Alternative(n, offer.ns) for n, offer in zip(named, self.offers, strict=True))


def choose(node: Node, context: Context) -> Choice:
    """Chooses the fastest way to compute ``node``; of equally fast ones, the one that was registered first.

    Candidates of plugins take precedence: graphwright's own are asked only if none of them applies.
    """
    candidates = candidates_of(node)
    own = [each for each in candidates if is_plugin_op(each)]
    others = [each for each in candidates if not is_plugin_op(each)]
    offered, refused = _offers(own, node, context)
    if offered:
        refused += [NotTaken(_candidate_name(each), WhyNot.PLUGIN) for each in others]
    else:
        offered, more = _offers(others, node, context)
        refused += more
    if len(offered) > 1 or any(offer.weighed for offer in offered):
        offered = [replace(offer, ns=predicted_ns(offer.action, context)) for offer in offered]
    offers = _in_order(node, sorted(offered, key=lambda offer: offer.ns), context)
    if offers:
        context.generated.put_back(offers[0].additions)
    return Choice(offers[0].action if offers else None, offers, tuple(refused))


def _offers(
    candidates: Sequence[Candidate], node: Node, context: Context
) -> tuple[list[Offer], list[NotTaken]]:
    """The offers of ``candidates`` for ``node``, each once, and the candidates that do not apply."""
    offered: list[Offer] = []
    refused: list[NotTaken] = []
    for candidate in candidates:
        found = _offer(candidate, node, context)
        if isinstance(found, str):
            refused.append(NotTaken(_candidate_name(candidate), WhyNot.ILLEGAL, found))
        elif not any(_is_same(found, earlier) for earlier in offered):
            offered.append(found)
    return offered, refused


def _is_same(offer: Offer, other: Offer) -> bool:
    """Whether both launch the same kernels of the library; names of generated kernels are reused."""
    return offer.action == other.action and not offer.additions and not other.additions


def _candidate_name(candidate: Candidate) -> str:
    """The name of a candidate: its family and function, such as ``gemm.product_of_matrices``."""
    *_, folder, module = ["", *candidate.__module__.split(".")]
    family = module if folder in ("candidates", "loops") else folder
    return f"{family}.{getattr(candidate, '__name__', 'candidate')}"


def _in_order(node: Node, offers: Sequence[Offer], context: Context) -> tuple[Offer, ...]:
    """``offers`` by predicted time, with the chosen one first."""
    if len(offers) < 2:
        return tuple(offers)
    alternatives: dict[str, Offer] = {}
    for offer in offers:
        alternatives.setdefault(" + ".join(_names(offer.action, kept=False)) or "no kernel", offer)
    taken = alternatives[context.choose("kernel", node, list(alternatives))]
    return taken, *(offer for offer in offers if offer is not taken)


def _names(action: Run | Alias, kept: bool = True) -> tuple[str, ...]:
    """The names of kernels in the order of their launches; a generated one that is not ``kept`` has
    no name.
    """
    return tuple(_name(launch, kept) for launch in action.launches) if isinstance(action, Run) else ()


def _name(launch: Launch | Copy, kept: bool) -> str:
    if isinstance(launch, Copy):
        return "copy"
    symbol, module = launch.kernel.symbol, launch.kernel.module
    return symbol if kept or module != GENERATED else f"generated {symbol.rpartition('_')[0]}"


def _offer(candidate: Candidate, node: Node, context: Context) -> Offer | str:
    """The offer of ``candidate`` for ``node``, with its additions to the generated kernels undone."""
    mark = context.generated.mark()
    found, weighed = attempt(candidate, node, context)
    additions = context.generated.take_back(mark)
    return found if isinstance(found, str) else Offer(found, additions, weighed=weighed)


def predicted_ns(action: Run | Alias, context: Context) -> int:
    """The predicted time on one core in nanoseconds, with nominal values for unknown sizes."""
    if isinstance(action, Alias):
        return 0
    machine = context.target.machine
    works = [_work(launch, context) for k, launch in enumerate(action.launches) if k not in action.slots]
    return sum(works) + machine.task_ns * max(0, len(works) - 1)


def _work(launch: Launch | Copy, context: Context) -> int:
    work: Dim = (
        predict(Work(moved=2 * launch.source.type.bytes), context.target.machine)
        if isinstance(launch, Copy)
        else launch.work
    )
    return nominal(work, context.symbols)
