"""PyTorch models under torch.compile: speed, memory, overhead, first calls, and PyTorch's own tests."""
