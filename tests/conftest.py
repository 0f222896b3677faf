"""What holds for all tests: a slow machine is no failure of a property."""

from hypothesis import settings

settings.register_profile("house", deadline=None)
settings.register_profile("long", deadline=None, max_examples=2500)
settings.load_profile("house")
