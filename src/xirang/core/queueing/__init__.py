"""Where requests wait: lanes by priority and cost class; demand, window and threshold."""
