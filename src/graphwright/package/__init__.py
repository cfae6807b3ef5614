"""The ``.om`` file: graphs, weights and programs in one archive.

A zip archive of uncompressed, 64-byte aligned members. The same model and options give the same bytes:

- ``manifest.json``: format, options, each entry's inputs, outputs and executable, each member's size and
  SHA-256
- ``signature``: HMAC-SHA256 of the manifest, in hexadecimal; absent if the package is unsigned
- ``entries/NAME/graph.txt``: the fused graph of an entry; only graphs and constants are used of an untrusted
  file
- ``entries/NAME/general.txt``: its graph without assumptions about sizes; absent if programs assume nothing
- ``entries/NAME/NUMBER/TARGET/``: one of its programs for one target: ``tasks.json``, binaries of kernels
  (shared objects on a CPU), and their sources
- ``weights.safetensors``: every constant that tasks read, once, packed for the first target
- ``graph.safetensors``: constants that only the graphs need, which no run loads; absent if there are none
- ``weights/TARGET.safetensors``: weights that only the programs for another target read
"""
