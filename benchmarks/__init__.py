"""Measurements, and the models that they run."""
