"""What nobody could do better: exact figures and clairvoyant planners to measure a scheduler by."""
