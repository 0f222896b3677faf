"""Content codings: which is preferred, and unpacking within a bound."""

import gzip
import zlib

import pytest
from hypothesis import given, strategies as st

from xirang.errors import InvalidRequest
from xirang.frontends.errors import TooLarge, UnsupportedEncoding
from xirang.frontends.wire.compression import compress, decompress, preferred


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [
        (b"gzip", "gzip"),
        (b"deflate", "deflate"),
        (b"GZIP", "gzip"),
        (b"gzip, deflate", "gzip"),
        (b"deflate, gzip", "deflate"),
        (b"br, gzip;q=0.5, deflate;q=0.9", "deflate"),
        (b"gzip;q=0", None),
        (b"gzip;q=0.000, deflate;q=0.1", "deflate"),
        (b"identity", None),
        (b"identity;q=1, gzip;q=0.5", None),
        (b"identity;q=0.5, gzip;q=0.5", "gzip"),
        (b"*", None),
        (b"br", None),
        (b"", None),
        (b"gzip;q=nonsense", None),
        (b"gzip;level=3;q=0.4", "gzip"),
        (b"\xff\xfe,;;q=,gzip", "gzip"),
    ],
)
def test_preferred(accepted, expected):
    assert preferred(accepted) == expected


@given(st.binary(max_size=300), st.sampled_from(["gzip", "deflate"]))
def test_round_trip(body, coding):
    packed = compress(body, coding)
    assert decompress(packed, coding.encode(), bytes_max=300) == body
    assert (gzip.decompress if coding == "gzip" else zlib.decompress)(packed) == body


@pytest.mark.parametrize("coding", [b"identity", b" Identity ", b""])
def test_identity_is_left_alone(coding):
    assert decompress(b"abc", coding, bytes_max=1) == b"abc"


@pytest.mark.parametrize("coding", [b"br", b"gzip, gzip", b"zstd", b"\xff"])
def test_unknown_coding(coding):
    with pytest.raises(UnsupportedEncoding, match="expected gzip, deflate or identity"):
        decompress(b"abc", coding, bytes_max=10)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"notgzip",
        gzip.compress(b"abc", mtime=0)[:-1],
        gzip.compress(b"abc", mtime=0) + b"x",
        zlib.compress(b""),
    ],
)
def test_broken_stream(body):
    with pytest.raises(InvalidRequest):
        decompress(body, b"gzip", bytes_max=10)


def test_bound_is_exact():
    assert decompress(gzip.compress(bytes(10)), b"gzip", bytes_max=10) == bytes(10)
    with pytest.raises(TooLarge):
        decompress(gzip.compress(bytes(11)), b"gzip", bytes_max=10)


def test_bomb_is_not_unpacked():
    bomb = gzip.compress(bytes(50_000_000))
    with pytest.raises(TooLarge):
        decompress(bomb, b"gzip", bytes_max=1000)
