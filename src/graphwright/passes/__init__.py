"""Passes: they rewrite modules of graphs. One file each; ``compiler/pipeline.py`` lists them in order."""
