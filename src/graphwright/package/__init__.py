"""The ``.om`` file: graphs, weights and compiled targets in one archive.

A zip of stored, 64-byte aligned members; the same model and options give the same bytes:

- ``manifest.json``: format, inputs, outputs, options, and each member's size and SHA-256
- ``signature``: HMAC-SHA256 of the manifest, in hex; absent if no one signed it
- ``graph.txt``: the fused graph; with the constants it is all that an untrusted file contributes
- ``weights.safetensors``: every constant that tasks read, once, packed for the first target
- ``graph.safetensors``: constants of the graph alone, which are never loaded to run; absent if there are none
- ``targets/ISA/``: ``tasks.json``, kernels as shared objects, and their sources beside them; of further
  targets ``weights.safetensors`` as well, where they read weights that are not packed again from the first's
"""
