"""Quantized arithmetic, and what converts to and from it."""
