"""Constants of interpolation. The sources of kernels use them before the native module is built, so that this
module imports nothing.
"""

CUBIC_A = -0.75
MAX_COORDINATE = 2.0**30
"""Coordinates are clamped to this magnitude: it fits in an integer, and is outside of every image."""
