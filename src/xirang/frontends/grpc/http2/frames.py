"""HTTP/2 in numbers and bytes (RFC 9113): frames, flags, settings, and codes of errors."""

import struct
from enum import IntEnum

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

HEAD = struct.Struct(">BHBBL")
"""Of a frame: its length in 8 and 16 bits, kind, flags, stream."""
HEAD_BYTES = HEAD.size

NUMBER = struct.Struct(">L")
SETTING = struct.Struct(">HL")

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY = range(8)
WINDOW_UPDATE, CONTINUATION = 8, 9

ACK = END_STREAM = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITISED = 0x20

HEADER_TABLE_SIZE, ENABLE_PUSH, CONCURRENT_STREAMS_MAX = 1, 2, 3
INITIAL_WINDOW_SIZE, FRAME_SIZE_MAX, HEADER_LIST_SIZE_MAX = 4, 5, 6

ID_MASK = WINDOW_MAX = 2**31 - 1
"""The highest number of a stream, and the widest window: both have 31 bits."""
WINDOW = 65_535
"""How wide each window is at first."""
FRAME_BYTES = 16_384
"""The longest frame that everybody takes."""
FRAME_BYTES_MAX = 2**24 - 1


class ErrorCode(IntEnum):
    """Why a stream or a connection ends (section 7)."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13


class ConnectionFault(Exception):
    """What a connection does not survive (section 5.4.1)."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """A frame's bytes."""
    size = len(payload)
    return HEAD.pack(size >> 16, size & 0xFFFF, kind, flags, stream_id) + payload


def settings(values: dict[int, int]) -> bytes:
    """The frame that tells them."""
    return frame(SETTINGS, 0, 0, b"".join(SETTING.pack(*pair) for pair in values.items()))


def window_update(stream_id: int, size_bytes: int) -> bytes:
    """The frame that lets the other side send so many bytes more."""
    return frame(WINDOW_UPDATE, 0, stream_id, NUMBER.pack(size_bytes))


def reset(stream_id: int, code: ErrorCode) -> bytes:
    """The frame that ends one stream at once."""
    return frame(RST_STREAM, 0, stream_id, NUMBER.pack(code))


def goaway(last_id: int, code: ErrorCode, reason: str = "") -> bytes:
    """The frame after which no stream is begun; those up to the last were, or may have been."""
    return frame(GOAWAY, 0, 0, NUMBER.pack(last_id) + NUMBER.pack(code) + reason.encode())


def unpadded(payload: bytes) -> bytes:
    """What a padded frame holds.

    Raises:
        ConnectionFault: There is more padding than frame.
    """
    if not payload:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a padded frame says how much")
    if payload[0] >= len(payload):
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "there is more padding than frame")
    return payload[1 : len(payload) - payload[0]]
