"""Runs packages: assembles the executor of a model, binds feeds, and reports time, memory and crashes."""
