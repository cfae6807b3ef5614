"""Kernels: the prebuilt library, what offers them for a node, and their selection."""
