"""Lines of the log: text or JSON, of our own and of libraries, about requests and not."""

import io
import json
import logging

import pytest

from xirang.core.event import RunEnded
from xirang.core.request import Request
from xirang.core.run import Done, Run, Trigger
from xirang.observe.logs import LogHandler, logging_to
from xirang.observe.trace_context import TraceContext
from xirang.observe.witness import Sighting

MS = 1_000_000
CONTEXT = TraceContext(b"t" * 16, b"s" * 8)
TRACE = "0af7651916cd43dd8448eb211c80319c"


def logged(*acts, form="json", level="info"):
    """What stands in the log after these acts, each given the outlet."""
    stream = io.StringIO()
    with logging_to(stream, form=form, level=level, epoch_ns=lambda: 10**18) as outlet:
        for act in acts:
            act(outlet)
    return stream.getvalue(), outlet.tally


def documents(*acts, **settings):
    text, _ = logged(*acts, **settings)
    return [json.loads(line) for line in text.splitlines()]


def sighting(context=CONTEXT, **fields):
    requests = Request(7, "m", 0, 9 * MS), Request(8, "m", 0, 9 * MS)
    run = Run(3, "m", 0, requests, 2, 1, Trigger.ALONE, MS, MS, 0, 0)
    headers = fields.pop("headers", {b"x-request-id": b"abc", b"authorization": b"Bearer secret"})
    place = fields.pop("place", "/v2/models/m/infer")
    found = Sighting("http", place, headers, MS, context, True, model="m", status=200)
    found.end_ns, found.runs = 4 * MS, [(RunEnded(run, Done(MS), 3 * MS), 7)]
    for name, value in fields.items():
        setattr(found, name, value)
    return found


def test_a_request_has_its_own_id_and_that_of_its_trace():
    (told,) = documents(lambda outlet: outlet.put(sighting()))
    assert told["message"] == "POST /v2/models/m/infer"
    assert (told["logger"], told["level"]) == ("xirang.request", "info")
    assert (told["status"], told["duration_ms"]) == (200, 3)
    assert (told["request"], told["trace"]) == ("abc", (b"t" * 16).hex())
    assert (told["model"], told["run"], told["number"], told["mates"]) == ("m", 3, 7, 1)
    assert told["time"] == "2001-09-09T01:46:40.004Z"


def test_who_is_not_traced_here_has_the_id_of_its_callers_trace():
    headers = {b"traceparent": f"00-{TRACE}-b7ad6b7169203331-00".encode()}
    (told,) = documents(lambda outlet: outlet.put(sighting(None, headers=headers, identity="mine")))
    assert (told["trace"], told["request"]) == (TRACE, "mine")


@pytest.mark.parametrize("form", ["json", "text"])
def test_no_line_holds_a_key_or_breaks(form):
    nasty = sighting(headers={}, identity='a"\n2001 ERROR fake line', model="m" * 5000)
    text, _ = logged(lambda outlet: outlet.put(sighting()), lambda o: o.put(nasty), form=form)
    assert "secret" not in text
    assert len(text.splitlines()) == 2
    assert len(text) < 1200


def test_text_is_for_people():
    text, tally = logged(
        lambda outlet: outlet.put(sighting()),
        lambda _: logging.getLogger("xirang.x").warning("two\nlines", extra={"request": "a b"}),
        form="text",
    )
    first, second = text.splitlines()
    assert first.startswith("2001-09-09T01:46:40.004Z INFO xirang.request POST /v2/models/m/infer ")
    assert " status=200 duration_ms=3.0 " in first
    assert " request=abc " in first
    assert second.endswith('WARNING xirang.x two\\nlines request="a b"')
    assert tally.sent == 2


def test_what_libraries_say_goes_the_same_way():
    extra = {"color_message": "Started \x1b[36m%s\x1b[0m"}
    log = logging.getLogger("uvicorn.error")
    (told,) = documents(lambda _: log.warning("Started %s", 5, extra=extra))
    assert "color_message" not in told
    assert (told["logger"], told["message"], told["level"]) == (
        "uvicorn.error",
        "Started 5",
        "warning",
    )


def test_an_exception_is_told_with_its_trace():
    def fail(_):
        try:
            int("no")
        except ValueError:
            logging.getLogger("xirang").exception("it failed", extra={"trace": TRACE})

    (told,) = documents(fail)
    assert told["exception"].endswith("with base 10: 'no'")
    assert told["trace"] == TRACE
    text, _ = logged(fail, form="text")
    assert text.splitlines()[-1] == "ValueError: invalid literal for int() with base 10: 'no'"


def test_below_the_level_nothing_is_told_and_afterwards_all_is_as_before():
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    text, _ = logged(lambda _: logging.getLogger("xirang").info("quiet"), level="warning")
    assert text == ""
    assert (root.level, list(root.handlers)) == before


def test_a_reader_that_is_gone_costs_lines_and_nothing_else():
    stream = io.StringIO()
    with logging_to(stream, form="text", level="info", epoch_ns=lambda: 0) as outlet:
        stream.close()
        logging.getLogger("xirang").info("nobody reads this")
    assert (outlet.tally.sent, outlet.tally.failed) == (0, 1)


@pytest.mark.parametrize("form", ["json", "text"])
def test_whatever_is_told_is_written(form, capsys):
    def tell(outlet):
        log = logging.getLogger("xirang")
        log.info("a file", extra={"large": 1 << 80, "set": {1}, "name_of": None})
        log.info("%d too few")
        # Not by the logger: pytest would show it to its own processes, which cannot write it.
        LogHandler(outlet).emit(logging.LogRecord("x", 20, "x.py", 1, "a file \udc80", (), None))
        wrong = logging.LogRecord("x", logging.INFO, "x.py", 1, "%d", ("no number",), None)
        LogHandler(outlet).emit(wrong)

    text, tally = logged(tell, form=form)
    assert "1208925819614629174706176" in text
    assert "%d too few" in text
    assert tally.sent == 3
    assert "no number" in capsys.readouterr().err, "Python says what is wrong with such a line"
