"""Kernels: the prebuilt library by families, what offers them for a node, and their selection."""
