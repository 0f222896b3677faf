"""Other people's batching policies behind the scheduler's own calls, to compare with."""
