"""Codes of gRPC: theirs by number, and those that the page tells."""

import re
from pathlib import Path

import grpc
import pytest

from xirang import errors
from xirang.frontends import errors as door_errors
from xirang.frontends.grpc.status import CODES, Code, status_of

PAGE = Path(__file__).parents[3] / "docs" / "protocols.md"


def test_the_codes_are_those_of_grpc():
    theirs = {code.name: code.value[0] for code in grpc.StatusCode}
    assert {code.name: int(code) for code in Code}.items() <= theirs.items()


def test_the_page_tells_which_status_is_which_code():
    rows = re.findall(r"^\| ([A-Z_]+) \| (\d[\d, ]*)", PAGE.read_text(), re.MULTILINE)
    told = {int(status): code for code, cell in rows for status in cell.split(",")}
    assert told == {status: code.name for status, code in CODES.items()}


@pytest.mark.parametrize("module", [errors, door_errors], ids=lambda module: module.__name__)
def test_every_error_of_a_request_has_a_code(module):
    rare = {408, 431}  # they are about HTTP's own framing
    for kind in vars(module).values():
        if isinstance(kind, type) and issubclass(kind, errors.XirangError):
            known = status_of(kind("what")).code is not Code.UNKNOWN
            assert known or kind.status in rare, kind
