"""Measurements of xirang, printed as ratios and lines that a reader can compare."""
