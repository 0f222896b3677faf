"""Side by side with a genuine Triton server: the rules of its batcher, and how fast each is."""
