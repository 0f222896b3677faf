"""Models in processes of their own: whatever they do to themselves, the server lives."""
