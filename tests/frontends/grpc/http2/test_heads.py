"""Blocks of fields: those that come again are read once, and never taken for what they are not."""

import contextlib

import pytest
from hpack import Decoder, Encoder
from hypothesis import given, settings, strategies as st
from tests.frontends.grpc.http2.wire import FIELDS

from xirang.frontends.grpc.http2.frames import ConnectionFault, ErrorCode
from xirang.frontends.grpc.http2.heads import KEPT_MAX, HeadReader, block_of, head_of
from xirang.frontends.grpc.http2.limits import LIST_BYTES_MAX


def test_the_third_block_of_a_steady_client_is_not_read_again():
    encoder, reader = Encoder(), HeadReader()
    first, second, third = (reader.read(encoder.encode(FIELDS)) for _ in range(3))
    assert first is not second
    assert second is third
    assert (second.method, second.path, second.fields) == (b"POST", b"/a/b", FIELDS[4:])


names = st.sampled_from([b"a", b"b", b"traceparent", b"x-long-name"])
values = st.sampled_from([b"", b"1", b"2", b"v" * 40, b"w" * 900])
more = st.lists(st.tuples(names, values), max_size=5)


class Changing(Encoder):
    """May be told to use another size of table from now on."""

    def change(self, size):
        if size is not None:
            self.header_table_size = size


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(more, st.booleans(), st.sampled_from([None] * 6 + [0, 64, 1000, 4096])),
        min_size=1,
        max_size=25,
    )
)
def test_whatever_an_encoder_does_to_the_table_the_fields_are_its_own(requests):
    encoder, reader = Changing(), HeadReader()
    for fields, is_huffman, size in requests * 2:
        encoder.change(size)
        sent = [*FIELDS, *fields]
        assert reader.read(encoder.encode(sent, huffman=is_huffman)).fields == sent[4:]


def test_an_entry_put_in_the_place_of_another_is_a_change():
    """Adding what is there already moves what stands behind it."""
    reader, start = HeadReader(), block_of(FIELDS[:4])
    large = b"v" * 1950  # two of them fill the table
    for name in (b"a", b"b"):
        reader.read(start + b"\x40\x01" + name + b"\x7f\x9f\x0e" + large)
    last = start + b"\xbf"  # the entry before the last
    assert reader.read(last).fields == [(b"a", large)]
    assert reader.read(last) is reader.read(last)
    reader.read(start + b"\x40\x01b\x7f\x9f\x0e" + large)
    assert reader.read(last).fields == [(b"b", large)]


def test_what_is_kept_is_bounded():
    reader = HeadReader()
    for number in range(3 * KEPT_MAX):
        assert reader.read(block_of([*FIELDS, (b"n", b"%d" % number)])) is not None
        assert len(reader._kept) <= KEPT_MAX


def test_what_is_skipped_changes_the_table_all_the_same():
    encoder, reader = Encoder(), HeadReader()
    reader.skip(encoder.encode([(b"a", b"b")]))
    assert reader.read(encoder.encode([*FIELDS, (b"a", b"b")])).fields[-1] == (b"a", b"b")


def test_a_bomb_is_found_before_it_bursts():
    reader = HeadReader()
    bomb = block_of(FIELDS) + b"\x40\x01a\x7f\xa1\x1e" + b"v" * 4000 + b"\xbe" * 100
    with pytest.raises(ConnectionFault) as caught:
        reader.read(bomb)
    assert caught.value.code is ErrorCode.ENHANCE_YOUR_CALM
    assert len(bomb) < LIST_BYTES_MAX


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60))
def test_whatever_comes_is_read_or_refused(block):
    with contextlib.suppress(ConnectionFault):
        HeadReader().read(block)


@given(st.lists(st.tuples(st.binary(max_size=300), st.binary(max_size=300)), max_size=4))
def test_what_is_written_is_read_by_others(fields):
    assert list(Decoder().decode(block_of(fields), raw=True)) == fields


def test_a_head_is_made_of_a_request_alone():
    assert head_of(FIELDS) is not None
    assert head_of([]) is None
    assert head_of([(b":status", b"200"), *FIELDS]) is None
