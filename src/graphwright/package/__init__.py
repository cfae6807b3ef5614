"""The ``.om`` file: graphs, weights and compiled targets in one archive."""
