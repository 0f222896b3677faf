"""The shell around the core: the clock, the driver, instances and models, and the engine."""
