"""From what lies on disk, or a Python name, to models that can be loaded."""
