"""Passes: they rewrite modules of graphs. One file each; ``compiler/pipeline.py`` lists them in order.

The other modules of this folder are

- the framework: ``base``, ``manager``, ``rule_pass``, ``fixpoints``, ``plugin_passes``, ``after_stage``;
- rules and functions that passes share: ``traversal``, ``node_removal``, ``fixed_sizes``,
  ``failing_branches``, ``attention_operands``, ``integer_weights``;
- changes that a caller requests: ``bind_sizes``, ``model_interface``, ``buckets``, ``retype``;
- analyses: ``padding_proof``, ``dynamic_sizes``.
"""
