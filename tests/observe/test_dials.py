"""Settings of tracing and of the log, as they are turned over the network."""

import logging

import pytest

from xirang.errors import InvalidRequest
from xirang.observe.dials import Dials, FixedSetting, Logging, Tracing, dials_at

DEFAULT = {
    "trace_level": ["OFF"],
    "trace_rate": "1000",
    "trace_count": "-1",
    "log_frequency": "0",
    "trace_file": "",
    "trace_mode": "opentelemetry",
}


def test_tracing_stands_as_tritons_does():
    assert Dials().tracing().told() == DEFAULT
    assert not Dials().tracing("m").is_on


def test_a_model_has_its_own_settings_over_those_of_all():
    dials = Dials()
    dials.turn_tracing({"trace_rate": "7", "trace_level": ["TIMESTAMPS"]}, "m")
    assert dials.tracing("m") == Tracing(("TIMESTAMPS",), 7)
    assert dials.tracing("n") == dials.tracing() == Tracing()
    dials.turn_tracing({"trace_count": "5", "trace_rate": "9"})
    assert dials.tracing("m") == Tracing(("TIMESTAMPS",), 7, 5)
    assert dials.turn_tracing({"trace_rate": None}, "m") == Tracing(("TIMESTAMPS",), 9, 5)
    assert dials.turn_tracing({"trace_rate": [], "trace_count": None}) == Tracing()


def test_whoever_traces_is_called_after_each_turn():
    dials, seen = Dials(), []
    dials.on_turned.append(lambda: seen.append(dials.tracing().trace_rate))
    dials.turn_tracing({"trace_rate": "5"})
    dials.turn_tracing({"trace_rate": ["6"]})
    with pytest.raises(InvalidRequest):
        dials.turn_tracing({"trace_rate": "x"})
    assert seen == [5, 6]


@pytest.mark.parametrize(
    ("settings", "is_on"),
    [
        ({"trace_level": ["TIMESTAMPS"]}, True),
        ({"trace_level": "TENSORS"}, True),
        ({"trace_level": ["TIMESTAMPS", "TENSORS", "TENSORS"]}, True),
        ({"trace_level": ["TIMESTAMPS", "OFF"]}, False),
        ({"trace_level": ["TIMESTAMPS"], "trace_rate": "0"}, False),
        ({"trace_level": ["TIMESTAMPS"], "trace_count": "0"}, False),
    ],
)
def test_when_anything_is_traced(settings, is_on):
    assert Dials().turn_tracing(settings).is_on is is_on


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"zzz": "1"}, "unknown trace setting 'zzz'"),
        ({"trace_mode": "triton"}, "unknown trace setting 'trace_mode'"),
        ({"trace_level": ["FOO"]}, "must be a list of OFF"),
        ({"trace_level": 5}, "must be a list of OFF"),
        ({"trace_rate": "x"}, "Unable to parse 'trace_rate', got: x"),
        ({"trace_rate": 5}, "Unable to parse 'trace_rate', got: 5; expected digits, as a text"),
        ({"trace_rate": "-1"}, "Unable to parse 'trace_rate'. Expecting value >= 0, got:-1"),
        ({"trace_rate": str(2**40)}, "Unable to parse 'trace_rate'"),
        ({"trace_count": "-2"}, "Unable to parse 'trace_count'. Expecting value >= -1, got:-2"),
        ({"log_frequency": ["1", "2"]}, "expect only 1 value for 'log_frequency'"),
    ],
)
def test_what_makes_no_sense_changes_nothing(settings, words):
    dials = Dials()
    with pytest.raises(InvalidRequest) as caught:
        dials.turn_tracing({"trace_count": "3"} | settings)
    assert words in str(caught.value)
    assert dials.tracing() == Tracing()


def test_files_are_not_named_over_the_network():
    with pytest.raises(FixedSetting, match="trace file location can not be updated"):
        Dials().turn_tracing({"trace_file": "/tmp/x"})
    with pytest.raises(FixedSetting, match="log file location can not be updated"):
        Dials().turn_logging({"log_file": ""})


@pytest.mark.parametrize(
    ("settings", "level"),
    [
        ({}, logging.INFO),
        ({"log_verbose_level": 1}, logging.DEBUG),
        ({"log_info": False}, logging.WARNING),
        ({"log_info": False, "log_verbose_level": 2}, logging.DEBUG),
        ({"log_info": False, "log_warning": False}, logging.ERROR),
        ({"log_info": False, "log_warning": False, "log_error": False}, logging.CRITICAL),
    ],
)
def test_the_log_obeys_at_once(settings, level):
    dials = Dials()
    dials.turn_logging(settings)
    assert logging.getLogger("xirang.somewhere").getEffectiveLevel() == level
    assert dials.logging.told() == Logging().told() | settings


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"foo": 1}, "unknown log setting 'foo'"),
        ({"log_info": "x"}, "expect boolean for 'log_info'"),
        ({"log_verbose_level": -1}, "expect unsigned integer for 'log_verbose_level'"),
        ({"log_verbose_level": True}, "expect unsigned integer for 'log_verbose_level'"),
        ({"log_format": "x"}, "invalid argument for log_format, got: x"),
        ({"log_format": ["default"]}, "invalid argument for log_format"),
    ],
)
def test_a_wrong_setting_of_the_log_changes_nothing(settings, words):
    dials = Dials()
    with pytest.raises(InvalidRequest) as caught:
        dials.turn_logging({"log_error": False} | settings)
    assert words in str(caught.value)
    assert dials.logging == Logging()


@pytest.mark.parametrize("name", ["debug", "info", "warning", "error"])
def test_the_dials_stand_where_the_server_was_started(name):
    assert dials_at(name).logging.level == logging.getLevelNamesMapping()[name.upper()]
