"""Triton's model configuration: read, checked, completed, and put into xirang's own terms."""
