"""What the settings set up: who is followed, and what operators turn afterwards."""

import io

import pytest
from tests.support.collector import OtlpCollector

from xirang.config import Config
from xirang.errors import InvalidSetting
from xirang.observe.dials import Dials
from xirang.observe.logs import logging_to
from xirang.observe.observers import Observers, headers_of
from xirang.observe.statistics import Statistics
from xirang.observe.tracing import Times

TIMES = Times(lambda: 10**9, lambda: 10**18)


def observers(**settings):
    return Observers(
        Config(**settings),
        Statistics(unix_ms=lambda: 0),
        log=None,
        times=TIMES,
        is_off=lambda _: False,
    )


@pytest.fixture
def collector():
    with OtlpCollector() as collector:
        yield collector


def seen(witness, count=1000, model="m"):
    """How many of so many requests are traced."""
    traced = 0
    for _ in range(count):
        witness.left -= 1
        sighting = witness.see("http", "/", {}) if witness.left < 0 else None
        if sighting is not None:
            witness.submitted(sighting, model, "")
            traced += sighting.context is not None
    return traced


def test_nobody_sees_anything_unless_somebody_wants_to_know():
    plain = observers()
    assert plain.witness is None
    plain.obey(Dials())
    plain.close()
    assert observers(trace_ratio=1.0).witness is None, "there is nobody to send traces to"


def test_a_share_of_the_requests_is_traced_and_sent(collector):
    watching = observers(otlp_endpoint=collector.url, trace_ratio=1.0, otlp_headers=("a=b=c",))
    witness = watching.witness
    witness.left -= 1
    witness.ended(witness.see("http", "/v2/models/m/infer", {}), 200, 5)
    watching.close()
    (span,) = collector.spans
    assert span.name == "POST /v2/models/{model}/infer"
    assert collector.headers[0][1]["a"] == "b=c"
    assert collector.resources[0]["service.name"] == "xirang"


def test_operators_turn_it_by_tritons_settings(collector):
    watching, dials = observers(otlp_endpoint=collector.url, trace_ratio=0.01), Dials()
    watching.obey(dials)
    shown = dials.tracing().told()
    assert (shown["trace_level"], shown["trace_rate"]) == (["TIMESTAMPS"], "100")
    witness = watching.witness
    dials.turn_tracing({"trace_rate": "1"})
    assert seen(witness) == 1000
    dials.turn_tracing({"trace_count": "5"})
    assert seen(witness) == 5
    dials.turn_tracing({"trace_count": None, "trace_level": ["OFF"]})
    assert seen(witness) == 0
    dials.turn_tracing({"trace_level": ["TIMESTAMPS"]})
    dials.turn_tracing({"trace_level": ["OFF"]}, "quiet")
    assert (seen(witness, 10, model="quiet"), seen(witness, 10)) == (0, 10)
    watching.close()


def test_lines_need_no_collector():
    stream = io.StringIO()
    with logging_to(stream, form="text", level="info", epoch_ns=lambda: 0) as lines:
        watching = Observers(
            Config(log_requests=1.0),
            Statistics(unix_ms=lambda: 0),
            log=lines,
            times=TIMES,
            is_off=lambda _: False,
        )
        witness = watching.witness
        witness.left -= 1
        witness.ended(witness.see("http", "/v2/models/m/infer", {}), 200, 5)
        watching.close()
    assert "POST /v2/models/m/infer status=200" in stream.getvalue()


def test_a_header_without_a_name_is_refused_and_not_repeated():
    assert headers_of(("authorization=Bearer k", " x = y ")) == {
        "authorization": "Bearer k",
        "x": "y",
    }
    with pytest.raises(InvalidSetting, match="expected NAME=VALUE") as raised:
        headers_of(("a-key-alone",))
    assert "a-key-alone" not in str(raised.value)


def test_what_is_no_address_is_refused():
    with pytest.raises(InvalidSetting, match="otlp_endpoint"):
        observers(otlp_endpoint="collector")
