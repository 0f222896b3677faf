"""Real models for tests and benchmarks: what they are, and how they come to lie in ./models."""
