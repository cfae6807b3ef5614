"""The ``.om`` file: graphs, weights and programs in one archive.

A zip of stored, 64-byte aligned members; the same model and options give the same bytes:

- ``manifest.json``: format, inputs, outputs, options, and each member's size and SHA-256
- ``signature``: HMAC-SHA256 of the manifest, in hex; absent if no one signed it
- ``graph.txt``: the fused graph; with the constants it is all that an untrusted file contributes
- ``weights.safetensors``: every constant that tasks read, once, packed for the first target
- ``general.txt``: the graph that assumes nothing of sizes; absent where the programs assume nothing
- ``graph.safetensors``: constants of the graphs alone, which no run loads; absent if there are none
- ``entries/NAME/NUMBER/ISA/``: of a program of the entry NAME ``tasks.json``, kernels as shared objects, and
  their sources beside them; the manifest says how programs make up the entry
- ``weights/ISA.safetensors``: weights that only the programs for a further ISA read
"""
