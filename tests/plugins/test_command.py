"""``graphwright plugins``: what plugins bring, and their samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.support import graphwright

from .support import EXAMPLES
from .test_faults import CANDIDATE, HEAD, INFER, LAUNCH, REFERENCE, SIGNATURE

SAMPLE = "Mine.samples = (Sample(Mine(), (arg(F32, symbol('N')),){rest}),)\n"
PLUS_ONE = """\
    (void)arg, (void)scratch;
    for (int64_t i = begin; i < end; ++i)
        ((float *)buf[1])[i] = ((const float *)buf[0])[i] + 1;
    return 0;
"""


def run(*parts: str) -> tuple[int, str]:
    """The status and texts of the command for a plugin of these parts."""
    Path("mine.py").write_text("".join(parts))
    done = graphwright("plugins", "mine.py")
    return done.exit_code, done.stdout + done.stderr


def test_the_examples_are_listed_and_pass() -> None:
    done = graphwright("plugins", *sorted(EXAMPLES.glob("*.py")))
    assert done.exit_code == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    for row in (
        "Snake snake.py example.Snake 1 an expression",
        "Median median.py example.Median 1 NumPy",
        "FlipRows flip_rows.py example.FlipRows 1 a kernel",
        "l2_normalize l2_normalize.py L2Normalize",
        "rule normalize normalize_rule.py imported",
        "tanh_apart fusion_rule.py keeps tanh out of epilogues",
        "L2Normalize float32[130, 67] a kernel passed",
        "FlipRows int32[2, 3, 4, 5] a kernel passed",
    ):
        assert row.split() in rows, done.stdout
    assert "failed" not in done.stdout


def test_without_plugins_it_says_so() -> None:
    done = graphwright("plugins")
    assert done.exit_code == 0 and "no plugin is loaded" in done.stdout


def test_ops_without_samples_are_mentioned() -> None:
    status, text = run(HEAD, INFER, REFERENCE)
    assert status == 0 and "not tested, because they have no samples: Mine" in text


def kernel(body: str) -> str:
    return CANDIDATE.format(body=f"{SIGNATURE} {{\n{body}}}", launch=LAUNCH)


def test_a_correct_kernel_passes() -> None:
    status, text = run(HEAD, INFER, REFERENCE, SAMPLE.format(rest=""), kernel(PLUS_ONE))
    assert status == 0 and text.count("passed") == 3, text


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (PLUS_ONE.replace("+ 1", "+ 2"), "from the reference"),
        (PLUS_ONE.replace("return 0", "return 7"), "kernel k of plugin_mine.c returned 7"),
    ],
)
def test_a_wrong_kernel_fails(body: str, fault: str) -> None:
    status, text = run(HEAD, INFER, REFERENCE, SAMPLE.format(rest=""), kernel(body))
    assert status == 1 and fault in text and "failed" in text, text
    assert "mine.py: Mine of float32[3]: " in text


def test_chunks_that_change_the_result_are_found() -> None:
    """The result of this kernel depends on where its chunk begins."""
    body = PLUS_ONE.replace("+ 1;", "+ 1 + (float)(begin != 0) * 1e-6f;")
    text = kernel(body).replace("x.type.elements)", "x.type.elements, work=10**9)")
    status, shown = run(HEAD, INFER, REFERENCE, SAMPLE.format(rest=""), text)
    assert status == 1 and "threads compute other bits than 1 thread" in shown, shown


REFUSING = "    def infer(self, at, x):\n        raise at.fail('not today')\n"


@pytest.mark.parametrize(
    ("infer", "rest", "shown"),
    [
        (REFUSING, ", error='not today'", "rejected, as declared"),
        (REFUSING, "", "rejected: Mine: not today"),
        (INFER, ", error='not today'", "not rejected with 'not today'"),
    ],
)
def test_samples_that_must_be_rejected(infer: str, rest: str, shown: str) -> None:
    status, text = run(HEAD, infer, REFERENCE, SAMPLE.format(rest=rest))
    assert shown in text
    assert status == (shown != "rejected, as declared")
