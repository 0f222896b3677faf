"""Content codings of bodies, gzip and deflate: which one, packed, and unpacked within a bound."""

import functools
import zlib

from xirang.errors import InvalidRequest
from xirang.frontends.errors import TooLarge, UnsupportedEncoding

GZIP_WINDOW = 16 + zlib.MAX_WBITS
_WINDOWS = {"gzip": GZIP_WINDOW, "x-gzip": GZIP_WINDOW, "deflate": zlib.MAX_WBITS}
LEVEL = 1
"""Answers are mostly numbers: a higher level costs much and saves little."""


def decompress(body: bytes, content_encoding: bytes, *, bytes_max: int) -> bytes:
    """The body as it was before it was packed.

    Args:
        body: As received.
        content_encoding: The header's value; one coding (`deflate` means the zlib form).
        bytes_max: Bound of the result, so that a small bomb stays small.

    Raises:
        UnsupportedEncoding: The coding is not gzip, deflate or identity.
        TooLarge: The result would pass the bound.
        InvalidRequest: The bytes are not in that coding, or incomplete.
    """
    coding = content_encoding.decode("latin-1").strip().lower()
    if coding in {"identity", ""}:
        return body
    window = _WINDOWS.get(coding)
    if window is None:
        raise UnsupportedEncoding(
            f"Unsupported compression type {coding!r}; expected gzip, deflate or identity"
        )
    unpacker = zlib.decompressobj(window)
    try:
        unpacked = unpacker.decompress(body, bytes_max + 1)
    except zlib.error as error:
        raise InvalidRequest(f"the body is not valid {coding}: {error}") from error
    if len(unpacked) > bytes_max:
        raise TooLarge(f"the body is larger than {bytes_max} bytes once decompressed")
    if not unpacker.eof or unpacker.unused_data:
        raise InvalidRequest(f"the body is not one complete {coding} stream")
    return unpacked


def compress(body: bytes, coding: str) -> bytes:
    """The body packed in the coding that `preferred` named."""
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, _WINDOWS[coding])
    return packer.compress(body) + packer.flush()


@functools.lru_cache(maxsize=256)
def preferred(accept_encoding: bytes) -> str | None:
    """The coding an Accept-Encoding header prefers: "gzip", "deflate" or None for as it is.

    A coding must be named to be used (`*` names none); among equal weights the first wins,
    but plain identity only when it weighs more.
    """
    best, best_weight, identity_weight = None, 0.0, 0.0
    for element in accept_encoding.decode("latin-1").lower().split(","):
        coding, _, parameters = element.partition(";")
        weight = _weight(parameters)
        if coding.strip() == "identity":
            identity_weight = weight
        elif coding.strip() in {"gzip", "deflate"} and weight > best_weight:
            best, best_weight = coding.strip(), weight
    return best if best_weight >= identity_weight else None


def _weight(parameters: str) -> float:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return min(float(value), 1.0)
            except ValueError:
                return 0.0
    return 1.0
