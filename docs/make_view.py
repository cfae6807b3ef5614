"""Takes the picture of ``view.md``, in a headless Chromium: ``python -m docs.make_view``."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

from PIL import Image

import graphwright as gw
from tests.view.browser import browser
from tests.view.support import encoder

TARGET = Path(__file__).with_name("view.png")
COLORS = 48
"""Of the picture: it has few, and is small with them."""
PAGE = "graphwright.page"


def main() -> None:
    """Write the picture: a region of an encoder of twelve layers, next to the model's own nodes."""
    with tempfile.TemporaryDirectory() as folder, browser() as tab:
        page = Path(folder) / "page.html"
        gw.draw(encoder(12), "encoder").save(page)
        tab.size(1400, 760)
        tab.open(page)
        tab.run(f"{PAGE}.compare(2)")
        tab.run(f"{PAGE}.search('layer.1/mlp/Gelu')")
        tab.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        picture = Image.open(io.BytesIO(tab.screenshot()))
        picture.convert("RGB").quantize(COLORS).save(TARGET, optimize=True)


if __name__ == "__main__":
    main()
