"""Who gets in: the decision at the door."""
