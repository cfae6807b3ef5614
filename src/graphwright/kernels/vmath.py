VMATH = {}
