"""Real memory under the core's decisions: pages, and what runtimes allocate in them."""
