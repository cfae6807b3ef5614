"""Devices: what runs a compiled model. ``cpu`` (native), ``null`` (plans, launches nothing), ``reference`` (NumPy)."""
