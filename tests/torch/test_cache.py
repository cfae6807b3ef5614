"""Programs that a later process finds on disk."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import graphwright as gw
from graphwright.config import Options
from graphwright.program_cache import ProgramCache
from graphwright.targets.cpu.private_folder import PrivateFolder
from graphwright.tools.cli import app
from graphwright.torch import compiled_graph
from tests.torch.support import close, compiled


@pytest.fixture(autouse=True)
def _programs() -> None:
    """Programs are kept here."""


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).eval()


def report_of(folder: Path, module: nn.Module, **options: Any) -> Any:
    """The report of ``module`` as if it was compiled in a new process."""
    torch._dynamo.reset()
    run, x = compiled(module, options={"cache_dir": folder, **options}), torch.randn(2, 8)
    with torch.no_grad():
        close(run(x), module(x))
    ProgramCache.wait()
    (graph,) = gw.torch.report(run)
    return graph


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    graph = report_of(tmp_path, model())
    assert (graph.compilations, graph.cached, graph.miss) == (1, 0, "the cache is empty")
    return tmp_path


def test_a_second_process_compiles_nothing(filled: Path) -> None:
    graph = report_of(filled, model())
    assert (graph.compilations, graph.cached) == (1, 1)
    assert "1 of 1 programs from the cache" in str(graph)


def test_a_folder_that_was_moved_needs_no_compiler(filled: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    shutil.move(filled / "programs", moved / "programs")
    assert report_of(moved, model(), cc="/no/compiler").cached == 1


def test_kernels_that_are_there_need_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_graph, "MOST_WEIGHTS", 0)
    assert report_of(tmp_path, model()).compilations == 1
    assert not (tmp_path / "programs").exists()
    assert report_of(tmp_path, model(), cc="/no/compiler").compilations == 1
    with pytest.raises(Exception, match="no C compiler"):
        report_of(tmp_path, nn.Sequential(nn.Linear(8, 7), nn.Tanh(), nn.LayerNorm(7)), cc="/no/compiler")


def test_other_parameters_and_options_are_cache_misses(filled: Path) -> None:
    other = model()
    with torch.no_grad():
        other[0].weight[3, 5] += 1
    assert report_of(filled, other).miss == "the graph is known, with other constants"
    assert report_of(filled, model(), numerics="strict").miss == "the graph is known, with other options"
    assert report_of(filled, nn.Linear(8, 3)).miss == "the graph is new"


def test_a_miss_reads_only_the_keys_of_its_graph(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full cache has thousands of entries, and each compiled graph is a miss at first."""
    report_of(filled, nn.Linear(8, 3))
    read: list[str] = []
    monkeypatch.setattr(PrivateFolder, "read", lambda _, name: read.append(name))
    assert report_of(filled, nn.Linear(8, 5)).miss == "the graph is new"
    assert not [name for name in read if name.endswith(".json")]


def test_parameters_that_change_places_miss(tmp_path: Path) -> None:
    first = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    report_of(tmp_path, first)
    assert report_of(tmp_path, nn.Sequential(first[1], first[0])).cached == 0


def test_a_damaged_entry_is_compiled_again(filled: Path) -> None:
    (entry,) = (filled / "programs").glob("*.om")
    entry.write_bytes(entry.read_bytes()[:-200])
    assert report_of(filled, model()).cached == 0
    assert report_of(filled, model()).cached == 1


def test_the_size_of_the_cache_is_limited(tmp_path: Path) -> None:
    programs = ProgramCache(Options(cache_dir=tmp_path, cache_limit=1))
    for n in range(4):
        report_of(tmp_path, nn.Linear(8, 10_000 + n), cache_limit=1)
        assert programs.bytes() <= 1 << 20
    assert 1 <= len(programs.entries()) < 4
    report_of(tmp_path, nn.Linear(8, 30_000), cache_limit=1)  # takes more than half of it
    assert programs.bytes() <= 1 << 20
    assert report_of(tmp_path / "none", nn.Linear(8, 3), cache_limit=0).miss == ""
    assert not (tmp_path / "none").exists()


def test_the_command_lists_and_clears(filled: Path) -> None:
    run, folder = CliRunner(), ["--cache-dir", os.fspath(filled)]
    (entry,) = (filled / "programs").glob("*.om")
    assert entry.stem[:12] in run.invoke(app, ["cache", "list", *folder]).output
    assert run.invoke(app, ["cache", "stats", *folder]).output.count("entries") == 2
    assert "dropped" in run.invoke(app, ["cache", "clear", *folder]).output
    assert "there are none" in run.invoke(app, ["cache", "list", *folder]).output
