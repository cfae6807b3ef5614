"""Quantization, dequantization, and quantized matrix multiplications and convolutions."""
