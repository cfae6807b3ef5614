"""Hooks of mkdocs (``mkdocs.yml``): pages that are made from other files, and links that fit the site.

README and the other pages outside of ``docs`` join the site; the reference is made from docstrings, and a
page of each command from its options. A link to a file that is not a page leads to the repository, if
``repo_url`` names one; otherwise it becomes plain text.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import graphwright
from graphwright.config import table
from graphwright.tools.cli import COMMANDS, app

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = {
    "README.md": "index.md",
    "benchmarks/README.md": "benchmarks.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Pages outside of ``docs``, and what they are called in the site."""
_SOURCES: Final = {page: source for source, page in PAGES.items()}
_LINK: Final = re.compile(r"(?<!!)\[((?:[^\[\]]|\n)+?)\]\(([^)\s:]+)\)")
_FENCED: Final = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the pages of the commands below the page of the command line."""
    section = next(entry["Command line"] for entry in config.nav or [] if "Command line" in entry)
    section.extend(f"commands/{command}.md" for command in COMMANDS)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not files of ``docs``."""
    made = {page: (ROOT / source).read_text() for source, page in PAGES.items()}
    made["reference.md"] = reference()
    made |= {f"commands/{command}.md": command_page(command) for command in COMMANDS}
    for page, content in made.items():
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The text of ``page`` with links that lead to pages of the site."""
    return relinked(markdown, page.file.src_uri, config.repo_url or "")


def relinked(text: str, page: str, repository: str = "") -> str:
    """``text`` of ``page`` with its links converted to links of the site, except in code blocks."""
    source = _SOURCES.get(page, f"docs/{page}")

    def link(match: re.Match[str]) -> str:
        words, (path, _, anchor) = match[1], match[2].partition("#")
        if not path:
            return match[0]
        found = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        target = PAGES.get(found, found.removeprefix("docs/"))
        if found in PAGES or (found.startswith("docs/") and found.endswith(".md")):
            where = posixpath.relpath(target, posixpath.dirname(page) or ".")
            return f"[{words}]({where}{'#' + anchor if anchor else ''})"
        return f"[{words}]({repository.rstrip('/')}/blob/main/{found})" if repository else words

    parts = _FENCED.split(text)
    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in parts)


def reference() -> str:
    """A page of all public names, with their signatures and docstrings, and of all options."""
    lines = ["# Reference", "The public names of `import graphwright as gw`, and all options."]
    for name, home in sorted(graphwright._HOMES.items()):
        about = {"options": {"heading": f"gw.{name}", "toc_label": name}}
        lines.append(f"::: {'.'.join(filter(None, home))}\n    {json.dumps(about)[1:-1]}")
    lines += [
        "## Options",
        "Options of `gw.CompileOptions`, which are also environment variables.",
        options_table(),
    ]
    return "\n\n".join(lines)


def options_table() -> str:
    """A table of the options: name, environment variable, default, and meaning."""
    rows = ["| option | variable | default | |", "| --- | --- | --- | --- |"]
    for option, (default, variable, help_text) in table().items():
        rows.append(f"| `{option}` | `{variable}` | {_cell(default)} | {_cell(help_text)} |")
    return "\n".join(rows)


def command_page(command: str) -> str:
    """A page of one command: what it does, its arguments and its options."""
    commands: Any = typer.main.get_command(app)
    return f"# graphwright {command}\n\n" + "\n\n".join(_texts(commands.get_command(None, command), command))


def _texts(command: Any, name: str) -> Iterator[str]:
    """Paragraphs and tables of a command, and of its subcommands."""
    yield from _paragraphs(command.help or "")
    rows = [_row(each) for each in command.params if each.name != "help"]
    if rows:
        yield "\n".join(["| | |", "| --- | --- |", *rows])
    for inner, each in getattr(command, "commands", {}).items():
        yield f"## graphwright {name} {inner}"
        yield from _texts(each, f"{name} {inner}")


def _paragraphs(text: str) -> Iterator[str]:
    """Help text as Markdown: what is indented is lines of a shell."""
    for part in re.split(r"\n\s*\n", re.sub(r"\[/?\w+\]|\x08", "", text)):
        lines = [line for line in part.splitlines() if line.strip()]
        if lines and all(line.startswith("  ") for line in lines):
            yield "\n".join(["```sh", *(line.strip() for line in lines), "```"])
        elif lines:
            yield _cell(" ".join(lines))


def _row(parameter: Any) -> str:
    """A line of a table: how the parameter is written, and what it means."""
    is_option = parameter.param_type_name == "option"
    names = [*parameter.opts, *parameter.secondary_opts] if is_option else [parameter.name.upper()]
    takes = f" {parameter.metavar}" if is_option and parameter.metavar else ""
    return f"| `{_cell(', '.join(names) + takes)}` | {_cell(parameter.help or '')} |"


def _cell(text: str) -> str:
    """``text`` in one line, escaped for a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
