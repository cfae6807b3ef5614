"""Kernels in the loop IR, written or derived for single nodes: what no library kernel supports."""
