"""ImageDecoder."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from io import BytesIO
from typing import Any

import numpy as np

from graphwright.ir.op import Array, Fact, Importer, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, U8, TensorType
from graphwright.ops.core.checks import need_dtype

CHANNELS = {"RGB": 3, "BGR": 3, "Grayscale": 1}
FORMATS = ("BMP", "JPEG", "JPEG2000", "TIFF", "PNG", "WEBP", "PPM")


@op("ImageDecoder")
class ImageDecoder(Op):
    """Decodes the bytes of an image file to u8[height, width, channels]. Bytes that are not an image give an
    empty tensor.

    The decoder is Pillow, which has the chroma upsampling of libjpeg-turbo, as ONNX specifies.
    """

    pixels: str = "RGB"

    def verify(self) -> None:
        if self.pixels not in CHANNELS:
            raise InferError(f"the pixel format {self.pixels!r} is not one of {', '.join(CHANNELS)}")

    def infer(self, at: Inference, encoded: Fact) -> TensorType:
        need_dtype(at, encoded, {U8})
        if encoded.rank != 1:
            raise at.fail(f"the file is {encoded.type}; it must be a vector of bytes")
        sizes = (at.symbols.fresh(name) for name in ("height", "width"))
        return TensorType(U8, (*sizes, CHANNELS[self.pixels]))

    def reference(self, encoded: Array) -> Array:
        image = importlib.import_module("PIL.Image")
        try:
            with image.open(BytesIO(encoded.tobytes()), formats=FORMATS) as file:
                pixels = np.asarray(file.convert("L" if self.pixels == "Grayscale" else "RGB"))
        except (OSError, SyntaxError, ValueError, image.DecompressionBombError):  # raised by Pillow
            return np.zeros((0, 0, CHANNELS[self.pixels]), np.uint8)
        if self.pixels == "Grayscale":
            return pixels[:, :, None]
        return np.ascontiguousarray(pixels[:, :, ::-1]) if self.pixels == "BGR" else pixels


def _import(i: Importer) -> Any:
    if find_spec("PIL") is None:
        raise i.fail("it needs the package Pillow, which is not installed", hint="pip install pillow")
    return i.emit(ImageDecoder(str(i.attr("pixel_format", "RGB"))), i.input(0))


_BITMAP = (
    *b"BM", 70, *(0,) * 7, 54, *(0,) * 3, 40, *(0,) * 3, 2, *(0,) * 3, 2, *(0,) * 3, 1, 0, 24, *(0,) * 5, 16,
    *(0,) * 19, 0, 0, 255, 255, 255, 255, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0,
)  # fmt: skip
"""A BMP file of 2 x 2 pixels: blue and green above red and white."""
ImageDecoder.onnx = {("ImageDecoder", 20): _import}
ImageDecoder.to_onnx = as_onnx("ImageDecoder", pixel_format="pixels")
ImageDecoder.samples = (
    *(Sample(ImageDecoder(pixels), (arg(U8, len(_BITMAP), values=_BITMAP),)) for pixels in CHANNELS),
    Sample(ImageDecoder(), (arg(U8, symbol("N")),)),
    Sample(ImageDecoder("CMYK"), (arg(U8, 9),), "pixel format 'CMYK'"),
    Sample(ImageDecoder(), (arg(F32, 9),), "the input is f32"),
    Sample(ImageDecoder(), (arg(U8, 3, 3),), "it must be a vector of bytes"),
)
