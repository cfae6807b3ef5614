"""Of the candidates that accept a node, the one that is predicted to be the fastest."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.cost.nominal import nominal
from graphwright.cost.predict import Work, predict
from graphwright.ir.graph import Node
from graphwright.ir.plugin_ops import is_plugin_op
from graphwright.ir.symbols import Dim
from graphwright.kernels.candidates.generated import GENERATED, Addition
from graphwright.kernels.candidates.registry import Candidate, Context, candidates_of
from graphwright.kernels.launch import Alias, Alternative, Copy, Launch, Run
from graphwright.records import dataclass, replace


@dataclass(frozen=True)
class Offer:
    """What a candidate makes of a node, and what it adds to the generated kernels for that."""

    made: Run | Alias
    additions: Sequence[Addition]
    ns: int = 0
    """Predicted nanoseconds of one core, where it is not the only offer."""


@dataclass(frozen=True)
class Choice:
    """How a node is done, and what else could do it."""

    made: Run | Alias | None
    """None where no candidate applies."""
    offers: tuple[Offer, ...]
    """Of all that apply, the one that was taken first."""
    reasons: tuple[str, ...]
    """Why others do not apply."""

    @property
    def alternatives(self) -> tuple[Alternative, ...]:
        """The offers in words, where there is more than one."""
        if len(self.offers) < 2:
            return ()
        taken, *others = self.offers
        named = (_names(taken.made), *(_names(offer.made, kept=False) for offer in others))
        return tuple(Alternative(n, offer.ns) for n, offer in zip(named, self.offers, strict=True))


def choose(node: Node, context: Context) -> Choice:
    """The fastest way to do ``node``; of equal ones that which is registered first.

    Users' own candidates come before graphwright's: these are asked where none of theirs applies.
    """
    offered: list[Offer] = []
    reasons: list[str] = []
    candidates = candidates_of(node)
    for own in (True, False):
        for candidate in candidates:
            if is_plugin_op(candidate) == own:
                found = _offer(candidate, node, context)
                if isinstance(found, str):
                    reasons.append(found)
                else:
                    offered.append(found)
        if offered:
            break
    if len(offered) > 1:
        offered = [replace(offer, ns=predicted_ns(offer.made, context)) for offer in offered]
    offers = _in_order(node, sorted(offered, key=lambda offer: offer.ns), context)
    if offers:
        context.generated.put_back(offers[0].additions)
    return Choice(offers[0].made if offers else None, offers, tuple(reasons))


def _in_order(node: Node, offers: Sequence[Offer], context: Context) -> tuple[Offer, ...]:
    """``offers``, the predicted one first, with the one that is taken in front."""
    if len(offers) < 2:
        return tuple(offers)
    ways: dict[str, Offer] = {}
    for offer in offers:
        ways.setdefault(" + ".join(_names(offer.made, kept=False)) or "no kernel", offer)
    taken = ways[context.choose("kernel", node, list(ways))]
    return taken, *(offer for offer in offers if offer is not taken)


def _names(made: Run | Alias, kept: bool = True) -> tuple[str, ...]:
    """Kernels in the order of their launches; a generated one that is not ``kept`` has no name."""
    return tuple(_name(launch, kept) for launch in made.launches) if isinstance(made, Run) else ()


def _name(launch: Launch | Copy, kept: bool) -> str:
    if isinstance(launch, Copy):
        return "copy"
    symbol, module = launch.kernel.symbol, launch.kernel.module
    return symbol if kept or module != GENERATED else f"generated {symbol.rpartition('_')[0]}"


def _offer(candidate: Candidate, node: Node, context: Context) -> Offer | str:
    """What ``candidate`` makes of ``node``, whose additions are taken back."""
    mark = context.generated.mark()
    found = context.attempt(candidate, node)
    additions = context.generated.take_back(mark)
    return found if isinstance(found, str) else Offer(found, additions)


def predicted_ns(made: Run | Alias, context: Context) -> int:
    """Nanoseconds of one core; sizes that are not known yet count as usual ones."""
    if isinstance(made, Alias):
        return 0
    machine = context.target.machine
    works = [_work(launch, context) for k, launch in enumerate(made.launches) if k not in made.slots]
    return sum(works) + machine.task_ns * max(0, len(works) - 1)


def _work(launch: Launch | Copy, context: Context) -> int:
    work: Dim = (
        predict(Work(moved=2 * launch.source.type.bytes), context.target.machine)
        if isinstance(launch, Copy)
        else launch.work
    )
    return nominal(work, context.symbols)
