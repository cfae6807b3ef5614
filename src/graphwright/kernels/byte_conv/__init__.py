"""Convolutions of bytes."""
