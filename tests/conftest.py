"""What holds for all tests: a slow machine is no failure of a property."""

from hypothesis import HealthCheck, settings

house = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("house", house)
settings.register_profile("long", house, max_examples=2500)
settings.load_profile("house")
