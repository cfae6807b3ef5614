"""Contractions know which weights belong to an output channel."""

from __future__ import annotations

import numpy as np
import pytest

from graphwright.ir.interfaces.output_channels import OutputChannels
from graphwright.ops.core.gemm import Gemm
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.conv_transpose import ConvTranspose


@pytest.mark.parametrize(
    ("op", "shape", "channels"),
    [
        (Conv(), (6, 4, 3, 3), 6),
        (Conv(group=2), (6, 2, 3), 6),
        (ConvTranspose(), (4, 6, 3, 3), 6),
        (ConvTranspose(group=2), (4, 3, 3), 6),
        (Gemm(), (4, 6), 6),
        (Gemm(trans_b=True), (6, 4), 6),
    ],
    ids=str,
)
def test_weights_of_a_channel_have_its_scale(
    op: OutputChannels, shape: tuple[int, ...], channels: int
) -> None:
    scale = np.arange(1.0, channels + 1)
    scaled = np.broadcast_to(op.along_channels(scale, shape), shape)
    rows = op.weights_by_channel(scaled)
    np.testing.assert_array_equal(rows, np.repeat(scale[:, np.newaxis], rows.shape[1], axis=1))


def test_the_bias_of_a_gemm_has_the_factor_beta() -> None:
    assert Gemm(beta=0.5).with_whole_bias() == (Gemm(), 0.5)
    assert Conv(group=2).with_whole_bias() == (Conv(group=2), 1.0)
