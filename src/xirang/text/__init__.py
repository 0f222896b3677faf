"""Text models: from a string to tokens, from hidden states to one embedding."""
