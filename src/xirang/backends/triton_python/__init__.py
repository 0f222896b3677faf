"""Model files written for Triton's Python backend, unchanged, in worker processes."""
