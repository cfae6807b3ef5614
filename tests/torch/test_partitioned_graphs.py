"""Graphs in which PyTorch runs some operators: their parts are compiled at the same time."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import torch

import graphwright as gw
from graphwright.torch import compiled_graph
from tests.torch.support import close


def around_determinants(x: torch.Tensor) -> torch.Tensor:
    y = x.sin() + torch.linalg.cholesky(x)
    return (y @ torch.linalg.cholesky(y @ y.T)).cos()


def test_two_parts_are_compiled_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    both, compile = threading.Barrier(2, timeout=60), compiled_graph.compile

    def compile_together(*arguments: Any, **options: Any) -> Any:
        both.wait()  # raises unless another thread compiles as well
        time.sleep(0.5)
        return compile(*arguments, **options)

    monkeypatch.setattr(compiled_graph, "compile", compile_together)
    run = torch.compile(around_determinants, backend="graphwright", options={"cache_limit": 0})
    x = torch.eye(4) * 2 + 0.1
    start = time.perf_counter()
    with torch.no_grad():
        close(run(x), around_determinants(x))
    (graph,) = gw.torch.report(run).graphs
    assert (graph.parts, graph.compilations) == (2, 2)
    assert 0.5 <= graph.seconds <= time.perf_counter() - start


def test_an_error_of_one_part_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set()

    def fail(*_: Any, **__: Any) -> Any:
        threads.add(threading.current_thread())
        raise OSError("no compiler")

    monkeypatch.setattr(compiled_graph, "compile", fail)
    run = torch.compile(around_determinants, backend="graphwright", options={"cache_limit": 0})
    with torch.no_grad(), pytest.raises(OSError, match="no compiler"):
        run(torch.eye(4))
    assert 1 <= len(threads) <= 2
