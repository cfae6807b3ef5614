"""The engines that benchmarks compare, one module each.

Every module has ``start(model, threads)``: it loads a file and returns a function from feeds to outputs.
"""
