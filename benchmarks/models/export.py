"""Models written by PyTorch's exporters from transformers' architectures with seeded random weights.

Needs the extra ``models`` (torch, transformers, onnxscript), which may live in an environment of its own::

    python -m venv ~/torch-env && ~/torch-env/bin/pip install torch==2.13.0 transformers onnxscript
    GRAPHWRIGHT_TORCH_PYTHON=~/torch-env/bin/python python -m benchmarks.models fetch bert_base

The zoo runs this file as a script in that interpreter: ``python export.py NAME FILE.onnx``, or ``FILE.pt2``
for torch.export's program of the same model.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
import transformers

OPSET = 20
SPREAD = 0.05
"""Spread of transformers' weights: at the default of 0.02 attention is near uniform, which hides faults."""


def randomise(model: torch.nn.Module, seed: int) -> torch.nn.Module:
    """Gives biases, and the affine parameters and statistics of norms, random values from a seed: PyTorch
    initializes them to ones and zeros.
    """
    generator = torch.Generator().manual_seed(seed)

    def uniform(tensor: torch.Tensor, low: float, high: float) -> None:
        tensor.copy_(torch.rand(tensor.shape, generator=generator) * (high - low) + low)

    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.BatchNorm2d | torch.nn.LayerNorm):
                uniform(module.weight, 0.5, 1.5)
            if isinstance(module, torch.nn.BatchNorm2d):
                uniform(module.running_mean, -0.2, 0.2)  # type: ignore[arg-type]  # tracked: never None here
                uniform(module.running_var, 0.5, 1.5)  # type: ignore[arg-type]  # a buffer of this kind of module
        for name, parameter in model.named_parameters():
            if name.endswith(".bias"):
                uniform(parameter, -0.1, 0.1)
    return model


def image_model(model: str, **config: Any) -> Callable[[], tuple[torch.nn.Module, dict[str, torch.Tensor]]]:
    """A classifier of 1x3x224x224 images."""

    def make() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
        settings = getattr(transformers, f"{model}Config")(num_labels=1000, **config)
        built = getattr(transformers, f"{model}ForImageClassification")(settings)
        return built, {"pixel_values": torch.zeros(1, 3, 224, 224)}

    return make


def bert_base() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """BERT-base without a head, 1x128 tokens."""
    settings = transformers.BertConfig(initializer_range=SPREAD)
    names = ("input_ids", "attention_mask", "token_type_ids")
    tokens = {name: torch.ones(1, 128, dtype=torch.int64) for name in names}
    return transformers.BertModel(settings), tokens


EXPORTS: dict[str, Callable[[], tuple[torch.nn.Module, dict[str, torch.Tensor]]]] = {
    "resnet50": image_model("ResNet"),
    "mobilenet_v2": image_model("MobileNetV2"),
    "vit_b16": image_model("ViT", initializer_range=SPREAD),
    "bert_base": bert_base,
}


class Outputs(torch.nn.Module):
    """Returns the model's outputs as a plain tuple."""

    def __init__(self, model: torch.nn.Module, names: list[str]) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.model(**dict(zip(self.names, tensors, strict=True)), return_dict=False)


def export(name: str, file: str) -> None:
    """Write the model ``name`` to ``file``, an .onnx or a .pt2, weights inside."""
    torch.manual_seed(0)
    model, feeds = EXPORTS[name]()
    wrapped = Outputs(randomise(model.eval(), seed=1), list(feeds)).eval()
    inputs = tuple(feeds.values())
    if file.endswith(".pt2"):
        torch.export.save(torch.export.export(wrapped, inputs), file)
        return
    torch.onnx.export(
        wrapped,
        inputs,
        file,
        dynamo=True,
        opset_version=OPSET,
        input_names=list(feeds),
        external_data=False,
        verbose=False,
    )


if __name__ == "__main__":
    export(*sys.argv[1:])
