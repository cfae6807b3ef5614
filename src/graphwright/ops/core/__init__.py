"""Tensors: elementwise, shapes, indexing, reductions, products."""
