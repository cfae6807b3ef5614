"""Measured fusion decisions: graphs, edits of their partitions, a paired estimator, the fit of the model."""
