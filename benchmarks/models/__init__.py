"""The development zoo: real models from wheels, the onnx package's light models, and exports from PyTorch.

>>> model = MODELS["ppocr_cls"]
>>> onnxruntime.InferenceSession(model.path()).run(None, model.feeds("default", seed=0))
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.models import cache, light

Array = np.ndarray[Any, Any]
Fill = Callable[[np.random.Generator, tuple[int, ...]], Array]


def normal(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Standard normal f32: images and states after normalization."""
    return generator.standard_normal(shape, dtype=np.float32)


def audio(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """A f32 waveform in (-1, 1)."""
    wave: Array = np.tanh(generator.standard_normal(shape, dtype=np.float32) * np.float32(0.3))
    return wave


def pixels(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """f32 in [0, 255): detectors that take raw images."""
    return generator.random(shape, dtype=np.float32) * np.float32(255)


def page(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """f32 images of text-like rows: dark strokes on a light ground, normalized to about (-2, 2)."""
    image = np.full(shape, 2.0, np.float32) + generator.normal(0, 0.05, shape).astype(np.float32)
    for top in range(16, shape[-2] - 24, 40):
        for left in range(16, shape[-1] - 16, 12):
            if generator.random() < 0.85:
                strokes = generator.random((24, 10)) < 0.45
                image[..., top : top + 24, left : left + 10] -= np.float32(3.5) * strokes
    return image


def below(bound: int) -> Fill:
    """Seeded int64 in [0, bound)."""
    return lambda generator, shape: generator.integers(0, bound, shape)


def padded_mask(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """An int64 attention mask: ones, then zeros in the last eighth of each row."""
    mask = np.ones(shape, np.int64)
    mask[..., shape[-1] - shape[-1] // 8 :] = 0
    return mask


@dataclass(frozen=True)
class Variant:
    """A set of input shapes, and values for inputs that are not random."""

    shapes: Mapping[str, tuple[int, ...]]
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DevModel:
    """A model of the zoo. ``variants["default"]`` holds the sizes that benchmarks report."""

    name: str
    revision: str
    write: Callable[[Path], None]
    """Writes the model to a file, in the format that the file's name says."""
    fills: Mapping[str, Fill]
    variants: Mapping[str, Variant]
    heavy: bool = False
    """Takes minutes to make or hundreds of MB to keep."""
    suffixes: tuple[str, ...] = (".onnx",)
    """Types of file that ``write`` can write: ``.pt2`` is torch.export's program."""

    def cached_file(self, suffix: str = ".onnx") -> Path:
        """The path of the model's file of this type in the cache."""
        return cache.root() / f"{self.name}.{self.revision}{suffix}"

    def path(self, suffix: str = ".onnx") -> Path:
        """The model's file of this type in the cache; it is fetched or built first if it is missing."""
        return cache.ensure(self.cached_file(suffix), self.write)

    def feeds(self, variant: str = "default", seed: int = 0) -> dict[str, Array]:
        """Inputs by name: the same for the same ``variant`` and ``seed``."""
        chosen = self.variants[variant]
        generator = np.random.default_rng(seed)
        made = {name: self.fills[name](generator, shape) for name, shape in chosen.shapes.items()}
        return made | {name: np.asarray(value) for name, value in chosen.values.items()}


def alphabet(model: DevModel) -> list[str]:
    """The characters of a text recognizer by class: 0 is CTC's blank, the last is the space."""
    loaded = onnx.load(model.path(), load_external_data=False)
    texts = {p.key: p.value for p in loaded.metadata_props}
    return ["", *texts["character"].splitlines(), " "]


def _image(name: str, *sizes: tuple[int, ...]) -> dict[str, Variant]:
    first, *others = (Variant({name: size}) for size in sizes)
    return {"default": first} | {"x".join(map(str, v.shapes[name])): v for v in others}


def _voice(rate: int, samples: int, batch: int) -> Variant:
    return Variant({"input": (batch, samples), "state": (2, batch, 128)}, {"sr": np.int64(rate)})


def _exported(name: str) -> Callable[[Path], None]:
    def write(file: Path) -> None:
        python = os.environ.get("GRAPHWRIGHT_TORCH_PYTHON", sys.executable)
        script = Path(__file__).with_name("export.py")
        if subprocess.run([python, str(script), name, str(file)], stdout=sys.stderr).returncode:
            raise RuntimeError(
                f"{python} could not export {name}: see the docstring of {script} for what it needs"
            )

    return write


def _light(name: str) -> Callable[[Path], None]:
    return lambda file: light.write_light(name, file)


_RAPIDOCR, _SILERO, _DDDDOCR = "rapidocr-onnxruntime==1.4.4", "silero-vad==6.2.3", "ddddocr==1.6.1"
_OCR = "rapidocr_onnxruntime/models/ch_{}_infer.onnx"
_LIGHT_INPUTS = {
    "bvlc_alexnet": "data_0", "densenet121": "data_0", "inception_v1": "data_0", "inception_v2": "data_0",
    "resnet50": "gpu_0/data_0", "shufflenet": "gpu_0/data_0", "squeezenet": "data_0", "vgg19": "data_0",
    "zfnet512": "gpu_0/data_0",
}  # fmt: skip

MODELS: dict[str, DevModel] = {
    model.name: model
    for model in (
        DevModel(
            "ppocr_det", "1.4.4", cache.from_wheel(_RAPIDOCR, _OCR.format("PP-OCRv4_det")), {"x": page},
            _image("x", (1, 3, 640, 640), (1, 3, 320, 480)),
        ),
        DevModel(
            "ppocr_rec", "1.4.4", cache.from_wheel(_RAPIDOCR, _OCR.format("PP-OCRv4_rec")), {"x": normal},
            _image("x", (1, 3, 48, 320), (1, 3, 48, 160), (1, 3, 48, 640), (3, 3, 48, 320)),
        ),
        DevModel(
            "ppocr_cls", "1.4.4", cache.from_wheel(_RAPIDOCR, _OCR.format("ppocr_mobile_v2.0_cls")),
            {"x": normal},
            _image("x", (1, 3, 48, 192), (3, 3, 48, 192)),
        ),
        DevModel(
            "silero_vad", "6.2.3", cache.from_wheel(_SILERO, "silero_vad/data/silero_vad.onnx"),
            {"input": audio, "state": normal},
            {"default": _voice(16000, 576, 1), "8khz": _voice(8000, 288, 1), "batch3": _voice(16000, 576, 3)},
        ),
        DevModel(
            "ddddocr_det", "1.6.1", cache.from_wheel(_DDDDOCR, "ddddocr/common_det.onnx"), {"images": pixels},
            _image("images", (1, 3, 416, 416)),
        ),
        *(
            DevModel(
                f"light_{name}", f"{onnx.__version__}-1", _light(name), {data: normal},
                _image(data, (1, 3, 224, 224)), heavy=name in ("bvlc_alexnet", "vgg19", "zfnet512"),
            )
            for name, data in _LIGHT_INPUTS.items()
        ),
        *(
            DevModel(
                name, "1", _exported(name), {"pixel_values": normal},
                _image("pixel_values", (1, 3, 224, 224)), heavy=True, suffixes=(".onnx", ".pt2"),
            )
            for name in ("resnet50", "mobilenet_v2", "vit_b16")
        ),
        DevModel(
            "bert_base", "1", _exported("bert_base"),
            {"input_ids": below(30522), "attention_mask": padded_mask, "token_type_ids": below(2)},
            {"default": Variant(dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), (1, 128)))},
            heavy=True, suffixes=(".onnx", ".pt2"),
        ),
    )
}  # fmt: skip
"""All models by name."""
