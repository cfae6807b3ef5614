"""Data movement: copies, gathers, padding, and conversions to and from channel blocks."""
