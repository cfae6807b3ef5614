"""Ops on tensors: elementwise, shape, indexing, reduction and matrix multiplication."""
