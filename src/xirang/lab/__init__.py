"""The workshop: what measures a server from outside or drives the core on a virtual clock."""
