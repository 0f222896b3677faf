"""The scheduler's figures in the simulator: against clairvoyants, in trouble, and beside others."""
