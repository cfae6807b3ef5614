"""``graphwright.draw``: draws a model in a notebook, or to a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from graphwright.api import compile as compile_model
from graphwright.records import dataclass, field
from graphwright.runtime.model import Model
from graphwright.support.escaping import html_attribute
from graphwright.support.whole_file import whole_file
from graphwright.view.document import document_of
from graphwright.view.page import page_of
from graphwright.view.stages import PictureObserver, compilation_of, pictures_of_package

HEIGHT = 640
"""The height of the frame in notebooks, in pixels."""


@dataclass(frozen=True)
class Page:
    """A self-contained HTML page, which notebooks show in a frame."""

    html: str = field(repr=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page atomically. Raises OSError."""
        with whole_file(Path(path)) as file:
            file.write(self.html.encode())

    def _repr_html_(self) -> str:
        """A sandboxed frame, without the rights of the notebook."""
        style = f"width: 100%; height: {HEIGHT}px; border: 0"
        page = html_attribute(self.html)
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{page}"></iframe>'


def draw(model: Any, title: str = "model", **arguments: Any) -> Page:
    """A page with the graph of ``model`` at each stage.

    ``model`` is a source for :func:`graphwright.compile`, with its ``arguments``, or a compiled model, of
    which only the last graph and the tasks are known. Raises the errors of ``compile``.
    """
    if isinstance(model, Model):
        package = model.entry_package()
        pictures = pictures_of_package(package)
    else:
        observer = PictureObserver()
        package = compile_model(model, **arguments, observe=observer).entry_package()
        pictures = observer.pictures()
    return Page(page_of(title, document_of([compilation_of(title, package, pictures)])))
