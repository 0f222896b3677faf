"""The doors for texts: OpenAI's embeddings and the routes of Text Embeddings Inference."""
