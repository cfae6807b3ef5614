"""Ops of neural networks: convolution, pooling, normalization, attention, recurrent layers, activations."""
