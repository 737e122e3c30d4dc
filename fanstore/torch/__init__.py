"""Loaders for PyTorch, which is needed by whoever uses them and by nothing else of FanStore."""
