"""The part of the memory that is not Python: its source, how it is built, how it is called."""
