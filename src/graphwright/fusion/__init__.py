"""Fusion: decides which ops share a kernel, from their loops (legality) and the expected benefit, and records
the reasons.
"""
