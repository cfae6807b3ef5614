"""Tuning: measures alternatives instead of predicting them. Statistics, paired timing, search, and
records.
"""
