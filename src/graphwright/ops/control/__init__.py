"""Branches and loops, and what a compilation makes of them."""
