"""Winograd convolutions of images in channel blocks."""
