"""Headers that go on to models as parameters."""

import json

import pytest

from xirang.backends.requests import About
from xirang.errors import InvalidSetting
from xirang.frontends.forwarding import pattern_of, with_headers

HEADERS = {b"x-own": b"1", b"x-other": b"2", b"accept": b"*/*"}


def forwarded(about, text):
    return with_headers(about, HEADERS, pattern_of(text, "s"))


def test_those_that_match_are_parameters():
    found = forwarded(None, "X-O")
    assert json.loads(found.parameters) == {"x-own": "1", "x-other": "2"}
    assert json.loads(forwarded(None, "^x-own$").parameters) == {"x-own": "1"}


def test_what_the_request_says_itself_goes_first():
    about = About("7", '{"x-own":5,"n":1}', 3)
    found = forwarded(about, "x-")
    assert (found.id, found.timeout_us) == ("7", 3)
    assert json.loads(found.parameters) == {"x-own": 5, "n": 1, "x-other": "2"}


def test_without_a_match_nothing_is_said():
    about = About("7")
    assert forwarded(about, "none") is about
    assert forwarded(None, "(?-i)X-OWN") is None


def test_no_pattern_and_a_wrong_one():
    assert pattern_of("", "s") is None
    with pytest.raises(InvalidSetting, match="no regular expression"):
        pattern_of("[", "s")
