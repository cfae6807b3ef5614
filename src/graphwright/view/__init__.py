"""Draws the graph of a model at each stage of its compilation, as one self-contained HTML page."""
