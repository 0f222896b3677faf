"""Data that the package ships, each with its source and licence in NOTICE."""
