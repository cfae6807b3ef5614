"""Kernels that decide whether a run goes on."""
