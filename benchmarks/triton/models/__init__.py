"""Models that both servers load unchanged: files for a `model.py` of Triton's Python backend."""
