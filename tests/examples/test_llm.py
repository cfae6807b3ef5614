"""The example that generates text, on few tokens."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("transformers")
pytest.importorskip("tokenizers")
FILE = Path(__file__).parents[2] / "examples" / "llm" / "generate.py"


@pytest.mark.long
def test_compiled_text_is_that_of_eager_mode(capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location("generate", FILE)
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.main(["--tokens", "12", "--steps", "3", "--batch", "2"])
    eager, compiled = capsys.readouterr().out.strip().split("\n\n")
    assert "tokens/s" in eager and "tokens/s" in compiled
    assert eager.partition("\n")[2] == compiled.partition("\n")[2]
    assert eager.partition("\n")[2].startswith("The for statement is used to")
