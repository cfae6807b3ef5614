"""Random graphs that are partitioned, against the references of the module as it was before."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

import graphwright as gw
from graphwright.config import Options
from graphwright.ir.clone import clone_module
from graphwright.ir.evaluate import evaluate_module

from .generate import case


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernels")


@pytest.mark.parametrize("seed", range(16))
def test_host_programs_give_what_the_references_give(seed: int, cache: Path, tmp_path: Path) -> None:
    made = case(Random(seed))
    reference = clone_module(made.module)
    options = Options(cache_dir=cache, key_dir=tmp_path, verify=seed % 3 == 0)
    model = gw.compile(made.module, options=options)
    model.save(tmp_path / "model.om")
    loaded = gw.load(tmp_path / "model.om", options=options)
    for rows in made.rows:
        feeds = made.feeds(rows, seed)
        wanted = evaluate_module(reference, feeds)
        for one in (model, loaded):
            for threads in (1, 2):
                one.threads = threads
                for k, (got, want) in enumerate(zip(one(*feeds), wanted, strict=True)):
                    assert got.shape == want.shape and got.dtype == want.dtype, f"output {k}, {rows} rows"
                    np.testing.assert_allclose(got, want, 1e-4, 1e-4, err_msg=f"output {k}, {rows} rows")
