"""The ``.om`` file: graphs, weights and programs in one archive.

A zip of stored, 64-byte aligned members; the same model and options give the same bytes:

- ``manifest.json``: format, options, each entry's inputs, outputs and executable, each member's size and
  SHA-256
- ``signature``: HMAC-SHA256 of the manifest, in hex; absent if no one signed it
- ``entries/NAME/graph.txt``: the fused graph of an entry; with the constants it is all that an untrusted file
  contributes
- ``entries/NAME/general.txt``: its graph that assumes nothing of sizes; absent where the programs assume
  nothing
- ``entries/NAME/NUMBER/TARGET/``: of one of its programs ``tasks.json``, kernels as binaries (shared
  objects on a CPU), and their sources beside them
- ``weights.safetensors``: every constant that tasks read, once, packed for the first target
- ``graph.safetensors``: constants of the graphs alone, which no run loads; absent if there are none
- ``weights/TARGET.safetensors``: weights that only the programs for a further target read
"""
