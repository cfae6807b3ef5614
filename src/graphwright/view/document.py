"""The JSON document that the page reads: pictures with their drawings. Equal texts and drawings are stored
once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from graphwright.fusion.decisions import Decision
from graphwright.ir.refusal import Code
from graphwright.records import dataclass, field
from graphwright.support.escaping import terminal
from graphwright.view.layers import Drawing, Size, draw
from graphwright.view.levels import Item, Kind, Level, levels_of
from graphwright.view.picture import GraphPicture, PictureNode
from graphwright.view.scopes import equal_groups

FORMAT: Final = 1
CHARACTER: Final = 7
"""The approximate width of a character."""
LEAST_WIDTH, MOST_WIDTH, HEIGHT = 76, 210, 38
"""The size of a box."""
PORT: Final = Size(12, 12)
ERROR: Final = "error"
"""The only figure that is not an integer."""
MOST_LINE: Final = 400
"""The most characters of one line of text."""


@dataclass(frozen=True)
class KernelCode:
    """The C code of a generated kernel, and the loop IR that it was generated from."""

    source: str
    loops: str


@dataclass(frozen=True)
class Compilation:
    """The pictures of one compilation. ``decisions`` are its fusion decisions, each with the bytes that it
    saves.
    """

    title: str
    pictures: Sequence[GraphPicture]
    decisions: Sequence[tuple[Decision, int]] = ()
    kernels: Mapping[str, KernelCode] = field(default_factory=dict)


def document_of(compilations: Sequence[Compilation], starts: Sequence[int] = (0,)) -> dict[str, Any]:
    """``compilations`` as a JSON value. ``starts`` are the numbers of the one or two stages that are shown
    first; stages are numbered across all compilations.
    """
    writer = _DocumentWriter()
    stages = [
        writer.stage(picture, number) for number, each in enumerate(compilations) for picture in each.pictures
    ]
    held = list(map(writer.compilation, compilations))
    used = {decision.code for each in compilations for decision, _ in each.decisions}
    return {
        "format": FORMAT,
        "stages": stages,
        "starts": list(starts),
        "drawings": writer.drawings,
        "compilations": held,
        "codes": {code.value: [code.means, code.remedy] for code in Code if code in used},
        "sources": [terminal(name) for name in writer.sources.known],
        "texts": list(writer.texts.known),
    }


class _Numbers:
    """Numbers texts in order of first use."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.known.setdefault(text, len(self.known))


class _DocumentWriter:
    def __init__(self) -> None:
        self.texts, self.sources = _Numbers(), _Numbers()
        self.drawings: list[dict[str, Any]] = []
        self._drawn: dict[object, int] = {}

    def text(self, text: str) -> int:
        """The number of a text of one line or several."""
        return self.texts(_lines(text))

    def compilation(self, each: Compilation) -> dict[str, Any]:
        """Everything except the pictures."""
        return {
            "title": terminal(each.title),
            "decisions": [self._decision(decision, saved) for decision, saved in each.decisions],
            "kernels": {
                terminal(name): [_lines(code.source), _lines(code.loops)]
                for name, code in each.kernels.items()
            },
        }

    def stage(self, picture: GraphPicture, compilation: int) -> dict[str, Any]:
        """A picture as JSON; its nodes and groups are rows."""
        equal = equal_groups(picture)
        levels = levels_of(picture)
        return {
            "name": picture.stage,
            "compilation": compilation,
            "nodes": list(map(self._node, picture.nodes)),
            "groups": [
                {
                    "name": self.text(group.name),
                    "parent": group.parent,
                    "node": None if group.node is None else self._node(group.node),
                    "repeats": group.repeats,
                    "equal": equal[number],
                    **self._level(picture, levels[number]),
                }
                for number, group in enumerate(picture.groups)
            ],
        }

    def _decision(self, decision: Decision, saved: int) -> dict[str, Any]:
        """A fusion decision as JSON."""
        return {
            "kind": decision.edit.kind.value,
            "verdict": decision.verdict.value,
            "code": decision.code.value,
            "why": self.text(decision.why),
            "bytes": saved,
            "nodes": list(map(self.text, decision.edit.nodes)),
            "sources": [list(map(self.sources, sources)) for sources in decision.sources],
        }

    def _node(self, node: PictureNode) -> list[Any]:
        return [
            self.text(node.op),
            self.text(node.name),
            list(map(self.sources, node.sources)),
            [[self.text(name), self.text(value)] for name, value in node.facts.items()],
            {name: value if name == ERROR else round(value) for name, value in node.figures.items()},
            self.text(node.layout),
            list(map(self.text, node.kernels)),
        ]

    def _level(self, picture: GraphPicture, level: Level) -> dict[str, Any]:
        sizes = [_size(picture, item) for item in level.items]
        edges = list(level.edges)
        first = [k for k, item in enumerate(level.items) if item.kind is Kind.IN]
        last = [k for k, item in enumerate(level.items) if item.kind is Kind.OUT]
        return {
            "items": [[int(item.kind), item.number, self.text(item.text)] for item in level.items],
            "texts": [self.text(text) for text in level.edges.values()],
            "drawing": self._drawing(sizes, edges, first, last),
        }

    def _drawing(
        self,
        sizes: Sequence[Size],
        edges: Sequence[tuple[int, int]],
        first: Sequence[int],
        last: Sequence[int],
    ) -> int:
        """The number of the drawing of a level. Levels share a drawing if they differ only in names of equal
        length.
        """
        key = tuple(sizes), tuple(edges), tuple(first), tuple(last)
        if key not in self._drawn:
            self._drawn[key] = len(self.drawings)
            self.drawings.append(_drawing(draw(sizes, edges, first, last), sizes))
        return self._drawn[key]


def _drawing(drawing: Drawing, sizes: Sequence[Size]) -> dict[str, Any]:
    return {
        "width": drawing.width,
        "height": drawing.height,
        "rows": [list(row) for row in drawing.rows],
        "boxes": [[b.x, b.row, s.width, s.height] for b, s in zip(drawing.boxes, sizes, strict=True)],
        "routes": [[r.tail, r.head, list(r.bends), int(r.drawn)] for r in drawing.routes],
    }


def _size(picture: GraphPicture, item: Item) -> Size:
    if item.kind in (Kind.IN, Kind.OUT):
        return PORT
    lines = _label(picture, item)
    width = 20 + CHARACTER * max(map(len, lines))
    return Size(min(max(width, LEAST_WIDTH), MOST_WIDTH), HEIGHT)


def _label(picture: GraphPicture, item: Item) -> list[str]:
    """The label of a box: the name without its scopes."""
    if item.kind is Kind.NODE:
        node = picture.nodes[item.number]
        return [node.op, node.name.rpartition("/")[2]]
    group = picture.groups[item.number]
    return [f"+ {group.name if group.node is None else group.node.op}", "12 equal, 345 nodes"]


def _lines(text: str) -> str:
    """``text`` without control characters, line by line."""
    return "\n".join(_printable(text.split("\n")))


def _printable(lines: Iterable[str]) -> Iterable[str]:
    return (terminal(line.replace("\t", "    "), MOST_LINE) for line in lines)
