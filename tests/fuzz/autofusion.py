"""``python -m tests.fuzz.autofusion --count N --seed S``: random graphs in ONNX Runtime, before and after
``graph-autofusion``, with functions and without.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import onnxruntime as ort

from graphwright.autofusion.autofuse import Request, autofuse
from graphwright.export.onnx import save_model
from tests.export.peers import session
from tests.fuzz.differential.compare import difference
from tests.fuzz.differential.draft import Case, Impossible
from tests.fuzz.differential.generate import generate

Feed = dict[str, Any]
CHUNK = 50
"""Cases of a process: ONNX Runtime ends it at some sources."""
RANDOM = {
    "RandomNormal",
    "RandomUniform",
    "RandomNormalLike",
    "RandomUniformLike",
    "Bernoulli",
    "Multinomial",
}
EXPLAINED = {
    "Loop": "scan outputs of no iteration take unknown sizes for 0",
    "NonZero": "a scalar counts as a vector",
    "SplitToSequence": "keepdims is heeded beside sizes",
    "MatMulInteger": "products of no columns leave memory as it was",
    "ConvInteger": "products of no columns leave memory as it was",
    "QLinearMatMul": "products of no columns leave memory as it was",
    "Dropout": "the mask before opset 12 is unspecified",
}
"""What ONNX Runtime does otherwise than the standard, by op."""
MISSING = re.compile(
    r"implementation for (PRelu|LeakyRelu|ThresholdedRelu|Elu|Selu|HardSigmoid|HardSwish|Softplus|Mish)\("
)
"""Ops with kernels for f32 and f16. For f64 and integers it runs them as functions, at opset 18 only."""
WRONG, RIGHT, EXPECTED, REFUSED = "wrong", "right", "explained", "not run by ONNX Runtime"


def outcome(seed: int) -> tuple[str, str]:
    """The outcome of a case, with the difference if it is wrong."""
    try:
        case = generate(seed)
    except Impossible:
        return REFUSED, ""
    if not RANDOM.isdisjoint(case.ops):
        return REFUSED, ""
    try:
        source = session(case.model)
    except Exception:  # whatever ONNX Runtime raises
        return REFUSED, ""
    found = ((number, feed, _run(source, feed)) for number, feed in enumerate(case.feeds))
    runs = [each for each in found if each[2]]
    if not runs:
        return REFUSED, ""
    differs = next(_differences(case, runs), "")
    if not differs:
        return RIGHT, ""
    is_expected = MISSING.search(differs) or not EXPLAINED.keys().isdisjoint(case.ops)
    return (EXPECTED if is_expected else WRONG), f"{'+'.join(case.ops)}: {differs}"


def _run(source: ort.InferenceSession, feed: Feed) -> list[Any]:
    """The outputs; none if the source does not run on this feed."""
    try:
        return list(source.run(None, feed))
    except Exception:  # whatever ONNX Runtime raises
        return []


def _differences(case: Case, runs: Sequence[tuple[int, Feed, list[Any]]]) -> Iterator[str]:
    for inline in (False, True):
        try:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "fused.onnx"
                save_model(autofuse(case.model, Request(inline=inline)).model, path)
                fused = session(str(path))
        except Exception as error:
            yield f"{type(error).__name__}: {error}"
            continue
        for number, feed, wanted in runs:
            try:
                results = fused.run(None, feed)
            except Exception as error:
                yield f"feed {number}: {type(error).__name__}: {error}"
                continue
            pairs = zip(results, wanted, strict=True)
            yield from (f"feed {number}: {text}" for a, b in pairs if (text := difference(case.ops, a, b)))


def _work(pipe: Connection, seeds: range) -> None:
    for seed in seeds:
        pipe.send(outcome(seed))


def run(seeds: range) -> Counter[str]:
    """The number of cases by what became of them; prints those that are wrong."""
    counts: Counter[str] = Counter()
    while seeds:
        mine, other = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.get_context("fork").Process(target=_work, args=(other, seeds[:CHUNK]))
        process.start()
        other.close()
        try:
            for at in seeds[:CHUNK]:
                kind, text = mine.recv()
                counts[kind] += 1
                if kind == WRONG:
                    print(f"{at} {text}", flush=True)
            seeds = seeds[CHUNK:]
        except EOFError:  # the process ended at this case
            counts["ended"] += 1
            seeds = range(at + 1, seeds.stop)
        process.join()
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.autofusion", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="cases to try")
    parser.add_argument("--seed", type=int, default=0, help="the first of them")
    given = parser.parse_args()
    counts = run(range(given.seed, given.seed + given.count))
    print(", ".join(f"{kind} {count}" for kind, count in counts.items()))
    return int(counts[WRONG] > 0)


if __name__ == "__main__":
    sys.exit(main())
