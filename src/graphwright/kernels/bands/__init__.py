"""Chains of convolutions that run band by band."""
