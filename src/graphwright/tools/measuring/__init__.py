"""Measures the time and memory of models, alone or compared with other engines."""
