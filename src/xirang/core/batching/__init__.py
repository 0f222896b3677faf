"""Batch assembly as numbers: which waiting requests are cheapest padded together."""
