"""Runs programs: natively, by the NumPy references of ops, or only up to the memory plan."""
