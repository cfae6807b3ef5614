"""Interpolation over height and width."""
