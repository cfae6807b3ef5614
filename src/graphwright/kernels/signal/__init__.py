"""Transforms of signals."""
