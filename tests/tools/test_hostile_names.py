"""Names with escape sequences, markup, comment ends and path separators, through every command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphwright.tools.arrays import write_npz

from .support import HOSTILE, expected, graphwright, write_model

COMMANDS = {
    "compile": ("compile", "m.onnx", "-o", "out.om", "--print-after-all", "--time-passes"),
    "run": ("run", "m.onnx", "--shape", f"x{HOSTILE}:2,4", "-o", "out.npz"),
    "inspect": ("inspect", "m.onnx", "--shape", f"x{HOSTILE}:2,4"),
    "high": ("inspect", "m.onnx", "--ir", "high"),
    "mid": ("inspect", "m.onnx", "--ir", "mid"),
    "low": ("inspect", "m.onnx", "--ir", "low"),
    "memory": ("memory", "m.onnx", "--shape", f"x{HOSTILE}:2,4"),
    "check": ("check", "m.onnx", "--shape", f"x{HOSTILE}:2,4"),
    "bench": (
        *("bench", "m.onnx", "--shape", f"x{HOSTILE}:2,4", "--rounds", "1", "--round-seconds", "0.001"),
        *("--per-task", "--json", "out.json"),
    ),
    "profile": (
        *("profile", "m.onnx", "--shape", f"x{HOSTILE}:2,4", "--runs", "1", "--group", "source"),
        *("--trace", "out.json", "--html", "out.html"),
    ),
    "explain": ("cache", "explain", "m.onnx"),
    "passes": ("explain", "m.onnx", "--passes"),
    "kernels": ("explain", "m.onnx", "--kernels"),
    "bisect": ("debug", "bisect", "m.onnx", "--shape", f"x{HOSTILE}:2,4"),
    "nan": ("debug", "nan", "m.onnx", "--shape", f"x{HOSTILE}:2,4"),
    "compare": ("debug", "compare", "m.onnx", "m.onnx", "--shape", f"x{HOSTILE}:2,4", "--with", "fp64"),
    "view": ("view", "m.onnx", "-o", "out.html"),
}
FAULTS = {
    "no sizes": ("run", "m.onnx"),
    "no such input": ("run", "m.onnx", "-i", f"{HOSTILE}=1"),
    "no such output": ("compile", "m.onnx", "--outputs", HOSTILE.replace(",", "")),
    "no such file": ("compile", f"{HOSTILE}.onnx"),
    "no such shape": ("compile", "m.onnx", "--shape", f"{HOSTILE}:1"),
}


def is_clean(text: str) -> bool:
    return all(c.isprintable() or c == "\n" for c in text)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_show_no_control_characters(command: str, tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx", HOSTILE)
    result = graphwright(*COMMANDS[command])
    assert result.exit_code == 0, result.stderr
    assert is_clean(result.stdout) and is_clean(result.stderr)
    assert "[red]" in result.stdout or command in ("bench", "explain", "bisect", "nan", "view")
    made = {"m.onnx", "out.om", "out.npz", "out.json", "out.html"}
    assert {path.name for path in tmp_path.iterdir()} <= made


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_show_no_control_characters(fault: str, tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx", HOSTILE)
    result = graphwright(*FAULTS[fault])
    assert result.exit_code == 1 and is_clean(result.stdout) and is_clean(result.stderr)


def test_an_unknown_op_with_a_hostile_name(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx", HOSTILE, op=f"Odd{HOSTILE}")
    result = graphwright("compile", "m.onnx")
    assert result.exit_code == 1 and is_clean(result.stderr) and "Odd" in result.stderr


def test_packages_keep_hostile_names(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx", HOSTILE)
    assert graphwright("compile", "m.onnx", "-o", "out.om").exit_code == 0
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    write_npz(Path("in.npz"), {"plain": x})
    np.save("x.npy", x)
    result = graphwright("run", "out.om", "-i", f"x{HOSTILE}=x.npy", "-o", "out.npz")
    assert result.exit_code == 0, result.stderr
    with np.load("out.npz") as made:
        (name,) = made.files
        assert name.replace("_", "").isalnum()
        np.testing.assert_allclose(made[name], expected(x), rtol=1e-6)
