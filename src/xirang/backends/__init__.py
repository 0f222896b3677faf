"""Libraries that execute models, one a file, imported only when a model needs it."""
