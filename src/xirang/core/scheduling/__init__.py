"""When a batch is cut, and which of the waiting requests go."""
