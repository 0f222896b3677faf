"""Windows into the server: sinks that fold the core's events."""
