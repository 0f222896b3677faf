"""The doors: each file turns one wire format into calls of the engine, and answers back."""
