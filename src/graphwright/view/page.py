"""The HTML page: a document of pictures and the scripts that draw them, in one self-contained file.

The scripts in ``page/`` are modules, so that editors and TypeScript can check them. The page has them as one
script. Its content security policy allows only the hash of this script, so that no text from a model can run.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Any, Final

from graphwright.support.escaping import html_text, script_json

FOLDER: Final = Path(__file__).parent / "page"
MAIN: Final = "main"
_IMPORT: Final = re.compile(r'^import (?P<names>\{[^}]*\}) from "\./(?P<module>[a-z_]+)\.js";$', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:class|function) (\w+)|const (.*);$)", re.MULTILINE)
_NAME: Final = re.compile(r"(\w+) = ")


def page_of(title: str, document: dict[str, Any]) -> str:
    """The HTML text of the page."""
    script, style = bundle(), (FOLDER / "style.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    parts = {
        "POLICY": policy,
        "TITLE": html_text(title),
        "STYLE": style,
        "DATA": script_json(document),
        "SCRIPT": script,
    }
    template = (FOLDER / "page.html").read_text("utf-8")
    return re.sub("@([A-Z]+)@", lambda found: parts[found[1]], template)


@cache
def bundle() -> str:
    """All modules as one script: each module is a function that is called once, after the modules that it
    imports.
    """
    order: dict[str, str] = {}
    _visit(MAIN, order)
    return f'"use strict";\n(() => {{\n{"".join(order.values())}}})();\n'


def _visit(module: str, order: dict[str, str]) -> None:
    text = (FOLDER / f"{module}.js").read_text("utf-8")
    for found in _IMPORT.finditer(text):
        if found["module"] not in order:
            _visit(found["module"], order)
    names = [name for found in _EXPORT.finditer(text) for name in _exported(found)]
    body = _EXPORT.sub("", _IMPORT.sub(r"const \g<names> = module_\g<module>;", text))
    order[module] = f"const module_{module} = (() => {{\n{body}return {{{', '.join(names)}}};\n}})();\n"


def _exported(found: re.Match[str]) -> list[str]:
    """The exported names of a line such as ``export class A`` or ``export const A = 1, B = 2``."""
    return [found[1]] if found[1] else _NAME.findall(found[2])
