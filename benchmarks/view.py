"""Measures the time to the first paint of a page of ``graphwright view``, and its frames per second:

    python -m benchmarks.view [--nodes 10000] [--output benchmarks/results/view/view.json]

The graph has scopes, and all of them are opened, so that all nodes are on the canvas. It runs in a headless
Chromium without a GPU. The first paint is timed from the start of the navigation; frames while the page is
panned and zoomed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any, Final

from graphwright.support.escaping import script_json
from graphwright.view.document import Compilation, document_of
from graphwright.view.page import page_of
from graphwright.view.picture import ROOT, GraphPicture, Group, PictureEdge, PictureNode
from graphwright.view.scopes import simplified
from tests.view.browser import Browser, browser

LAYER: Final = 10
"""Nodes of a layer."""
ROUNDS: Final = 5
FRAMES: Final = 120
FIRST_PAINT: Final = "performance.getEntriesByName('graph')[0].startTime"
INTERACT: Final = """new Promise((done) => {
  const {view} = graphwright.page, times = [];
  let last = performance.now();
  const step = () => {
    const now = performance.now();
    times.push(now - last);
    last = now;
    if (times.length > %d) { done(times.slice(1)); return; }
    if (times.length %% 2) view.zoom(times.length %% 4 === 1 ? 1.1 : 1 / 1.1);
    else view.drag({x: 0, y: 0}, {x: 3, y: -7});
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    found = measure(arguments.nodes)
    print(json.dumps(found, indent=2))
    if arguments.output is not None:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(found, indent=2) + "\n")


def measure(nodes: int) -> dict[str, Any]:
    """Medians of several loads of one page, and frames of it with all groups open, at three scales."""
    document = document_of([Compilation("layers", [layers(nodes // LAYER)])])
    with tempfile.TemporaryDirectory() as folder, browser() as tab:
        path = Path(folder) / "page.html"
        path.write_text(page_of("layers", document))
        tab.size(1280, 800)
        paints = [_first_paint(tab, path) for _ in range(ROUNDS)]
        tab.run("graphwright.page.view.open_all(true)")
        boxes = tab.run("graphwright.page.view.scene.boxes.length")
        return {
            "nodes": nodes,
            "boxes": boxes,
            "page_bytes": path.stat().st_size,
            "data_bytes": len(script_json(document)),
            "first_paint_ms": statistics.median(paints),
            "frames_per_second": {
                name: _frames(tab, scale) for name, scale in (("all", 0.0), ("half", 0.3), ("near", 1.0))
            },
            "browser": tab.call("Browser.getVersion")["product"],
        }


def _first_paint(tab: Browser, path: Path) -> float:
    """Returns the milliseconds from the start of the navigation to the end of the first drawing."""
    tab.open(path)
    return float(tab.run(FIRST_PAINT))


def _frames(tab: Browser, scale: float) -> dict[str, float]:
    """Returns the median and the slowest 5 % of frames per second; scale 0 shows the whole graph."""
    tab.run("graphwright.page.view.fit()")
    if scale:
        tab.run(f"graphwright.page.view.zoom({scale} / graphwright.page.view.camera.scale, 640, 60)")
    times = sorted(tab.run(INTERACT % FRAMES))
    return {"median": 1e3 / statistics.median(times), "slow": 1e3 / times[len(times) * 19 // 20]}


def layers(count: int) -> GraphPicture:
    """``count`` layers of ten nodes in two scopes, with residuals."""
    groups = [Group("")]
    nodes: list[PictureNode] = []
    edges: list[PictureEdge] = []
    for k in range(count):
        groups.append(Group(f"layer.{k}", ROOT))
        layer = len(groups) - 1
        groups.append(Group("attention", layer))
        first = len(nodes)
        for j in range(LAYER):
            name = f"layer.{k}/node_{j}"
            group = layer + 1 if j < LAYER // 2 else layer
            nodes.append(PictureNode(("MatMul", "Add", "Softmax", "Mul")[j % 4], name, group, (name,)))
            if first + j:
                edges.append(PictureEdge(first + j - 1, first + j, text="f32[1, 128, 768]"))
        if k:
            edges.append(PictureEdge(first - 1, first + LAYER // 2, text="f32[1, 128, 768]"))
    return simplified(GraphPicture("imported", tuple(nodes), tuple(edges), tuple(groups)))


if __name__ == "__main__":
    main()
