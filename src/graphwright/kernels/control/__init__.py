"""Kernels that check whether a run may continue."""
