"""Memory in integers: lifetimes and plans of one run, its peak law, and a pool shared by all."""
