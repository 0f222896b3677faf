"""What holds for all tests: a slow machine is no failure, and a failure shows its server's log."""

import gc
import logging

import pytest
from hypothesis import HealthCheck, settings

from xirang.lab.server import ServerProcess

house = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("house", house)
settings.register_profile("long", house, max_examples=2500)
settings.load_profile("house")

LOG_CHARACTERS = 4000


@pytest.fixture(autouse=True)
def _level_stays():
    """A test may turn the log's level, which the process has but once."""
    logger = logging.getLogger("xirang")
    before = logger.level
    yield
    logger.setLevel(before)


def pytest_collection_finish():
    """Thousands of tests live for good: the collector need not look at them again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    report = yield
    if report.failed:
        servers = [each for each in gc.get_objects() if type(each) is ServerProcess]
        for server in servers:
            if server.is_open:
                text = server.log_text()[-LOG_CHARACTERS:]
                report.sections.append(("log of a server", text))
    return report
