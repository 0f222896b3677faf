"""What a client is told to do about an error."""

import pytest
from tests.frontends.puppets import responses

from xirang import errors as ours
from xirang.frontends import errors
from xirang.frontends.errors import error_headers
from xirang.frontends.texts.openai import InvalidField

WORTH_A_RETRY = [
    ours.TooBusy("full", retry_after_ns=1_500_000_000),
    ours.NotReady("draining"),
    errors.NoRoom("too much"),
]
NOT_WORTH_ONE = [
    ours.InvalidRequest("wrong"),
    InvalidField("wrong", "input"),
    ours.Unauthorized("who?"),
    ours.Forbidden("not you"),
    ours.UnknownModel("where?"),
    ours.Expired("too late"),
    errors.TooLarge("large"),
    errors.HeadTooLarge("large"),
    errors.UnsupportedEncoding("br"),
]
UNSAID = [ours.ModelFailed("raised"), errors.Dawdled("slow"), RuntimeError("a fault of ours")]


def headers_of(error):
    (response,) = responses(b"HTTP/1.1 500 x\r\n" + error_headers(error) + b"\r\n")
    return response.headers


@pytest.mark.parametrize("error", WORTH_A_RETRY, ids=lambda error: type(error).__name__)
def test_whoever_may_come_back_is_told_so_and_when(error):
    headers = headers_of(error)
    assert headers["x-should-retry"] == "true"
    assert int(headers["retry-after"]) >= 1
    assert int(headers["retry-after-ms"]) >= 1000


def test_a_client_that_counts_in_seconds_comes_no_earlier_than_one_that_counts_finer():
    headers = headers_of(WORTH_A_RETRY[0])
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("2", "1500")


@pytest.mark.parametrize("error", NOT_WORTH_ONE, ids=lambda error: type(error).__name__)
def test_what_is_wrong_stays_wrong_and_what_is_late_stays_late(error):
    headers = headers_of(error)
    assert headers["x-should-retry"] == "false"
    assert "retry-after" not in headers


@pytest.mark.parametrize("error", UNSAID, ids=lambda error: type(error).__name__)
def test_what_may_go_well_the_next_time_is_left_to_the_client(error):
    assert headers_of(error) == {}


def test_what_is_ours_to_mend_is_logged_with_the_request_that_it_is_about(caplog):
    trace = "0af7651916cd43dd8448eb211c80319c"
    headers = {b"x-request-id": b"abc", b"traceparent": f"00-{trace}-b7ad6b7169203331-00".encode()}
    errors.error_response(errors.about(RuntimeError("a fault of ours"), headers))
    (record,) = caplog.records
    assert (record.request, record.trace) == ("abc", trace)
    errors.error_response(errors.about(ours.InvalidRequest("a fault of theirs"), headers))
    assert len(caplog.records) == 1
