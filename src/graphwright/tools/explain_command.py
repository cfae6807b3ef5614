"""``graphwright explain``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

import graphwright.ops
from graphwright.config import Options
from graphwright.fusion.decisions import Decision, Verdict
from graphwright.package.package import Package
from graphwright.package.read import read_package
from graphwright.package.sign import known_keys
from graphwright.tools.arguments import (
    Constants,
    EntryName,
    Outputs,
    Shapes,
    parse_shapes,
    require_folder,
    with_options,
)
from graphwright.tools.arguments import Model as ModelPath
from graphwright.tools.console import bytes_text, note, say, table
from graphwright.tools.explain_html import page
from graphwright.tools.explanation import Explanation, changes
from graphwright.tools.model_tables import traffic_line
from graphwright.tools.models import entry_named, is_package, open_model
from graphwright.tools.progress import Watch, stages
from graphwright.whole_file import whole_file

GAINS: Final = 4
MISSES: Final = 5
MOST_CHANGES: Final = 50
app = typer.Typer(add_completion=False)


@app.command()
@with_options
def explain(
    model: ModelPath,
    new: Annotated[
        Path | None,
        typer.Argument(help="With --diff: the model to compare with.", metavar="[NEW]", show_default=False),
    ] = None,
    shape: Shapes = None,
    const: Constants = None,
    outputs: Outputs = None,
    entry: EntryName = None,
    why_not: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="A B",
            help="Why one kernel does not compute both nodes: the first reason.",
            show_default=False,
        ),
    ] = None,
    diff: Annotated[
        bool, typer.Option("--diff", help="Show which decisions of NEW differ from those of MODEL.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print everything as JSON, with keys that stay.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write everything to one HTML file, which loads nothing.", show_default=False
        ),
    ] = None,
    *,
    options: Options,
) -> None:
    """Explain which nodes of a model one kernel computes, which not, and why.

    Ten lines: bytes that kernels read and write, the largest gains by rule, and the largest misses by the
    code of the refusal. A line counts the bytes of each edit by itself. Open sizes count as a guess: --shape
    gives them.

    \b
    [bold]Examples[/bold]

    \b
      graphwright explain model.om
      graphwright explain model.onnx --why-not Conv_4 Add_7
      graphwright explain model.om --json
      graphwright explain model.om --html fusion.html
      graphwright explain old.om new.om --diff
    """
    if diff != (new is not None):
        raise typer.BadParameter(
            "it takes two models, as in: explain old.om new.om --diff", param_hint="--diff"
        )
    if sum((why_not is not None, diff, as_json, html is not None)) > 1:
        raise typer.BadParameter("--why-not, --diff, --json and --html go one at a time")
    require_folder(html, "--html")
    graphwright.ops.load()

    def read(path: Path) -> Explanation:
        return Explanation.of(_package(path, shape, const, outputs, entry, options))

    explained = read(model)
    if new is not None:
        _show_changes(explained, read(new))
    elif why_not is not None:
        _show_why_not(explained, *why_not)
    elif as_json:
        say(json.dumps(explained.facts(), indent=2))
    elif html is not None:
        with whole_file(html) as file:
            file.write(page(model.name, explained).encode())
        note(f"wrote {html}")
    else:
        _show_summary(explained)


def _package(
    path: Path,
    shape: list[str] | None,
    const: list[str] | None,
    outputs: str | None,
    entry: str | None,
    options: Options,
) -> Package:
    """The package in a file, whose kernels are not loaded; of another model what is made of it."""
    if is_package(path) and not (shape or const or outputs):
        package = read_package(path, trust=options.trust, keys=known_keys(options), use_mmap=True)
        return package if entry is None else package.only(entry_named(entry, package.entries))
    with stages(Watch()) as observe:
        opened = open_model(
            path,
            options,
            shapes=parse_shapes(shape),
            constants=const,
            outputs=outputs,
            entry=entry,
            observe=observe,
        )
    return opened.alone()


def _show_summary(explained: Explanation) -> None:
    say(traffic_line(explained.nodes, explained.module))
    rows = [
        ["saved", *_line(explained, head, found)] for head, found in explained.groups(Verdict.TAKEN)[:GAINS]
    ]
    rows += [
        ["missed", *_line(explained, head, found)]
        for head, found in explained.groups(Verdict.REFUSED)[:MISSES]
    ]
    if rows:
        table(rows)


def _line(explained: Explanation, head: str, found: Sequence[Decision]) -> list[str]:
    """Bytes, rule or code, how often, and the largest one."""
    largest = found[0]
    total = bytes_text(sum(map(explained.bytes_of, found)))
    why = f": {largest.why}" if largest.verdict is Verdict.REFUSED else ""
    return [
        total,
        f"{len(found)} x",
        head,
        f"{_nodes(largest)}, {bytes_text(explained.bytes_of(largest))}{why}",
    ]


def _nodes(decision: Decision) -> str:
    return " -> ".join(decision.edit.nodes)


def _show_why_not(explained: Explanation, first: str, second: str) -> None:
    explained.require_names((first, second))
    together = explained.kernel_of(first, second)
    if together is not None:
        say(f"one kernel computes both: {together.name}")
        return
    found = explained.first_refusal(first, second)
    if found is None:
        say("no value passes from either to the other: only neighbours are merged")
        return
    say(f"{_nodes(found)}: {found.why} [{found.code.value}]")
    say(f"  {found.code.means}")
    if found.bytes_saved is not None:
        say(f"  a merge would save {bytes_text(explained.bytes_of(found))} in a run")
    if found.code.remedy:
        say(f"  what to do: {found.code.remedy}")


def _show_changes(old: Explanation, new: Explanation) -> None:
    found = changes(old, new)
    say(f"kernels: {len(old.nodes)}, now {len(new.nodes)}")
    before, after = (explained.total[0].total for explained in (old, new))
    say(f"bytes read and written: {bytes_text(before)}, now {bytes_text(after)}")
    say(f"decisions that differ: {len(found)}")
    for was, is_now in found[:MOST_CHANGES]:
        known = is_now or was
        assert known is not None
        say(f"  {_nodes(known)}: {_state(was)}, now {_state(is_now)}")
    if len(found) > MOST_CHANGES:
        say(f"  and {len(found) - MOST_CHANGES} more")


def _state(decision: Decision | None) -> str:
    if decision is None:
        return "no candidate"
    return f"{decision.verdict.value} [{decision.code.value}]"
