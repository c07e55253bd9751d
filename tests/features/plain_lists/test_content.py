"""The codec that a message chooses by its content type and content encoding."""

from __future__ import annotations

import gzip
import random
import tracemalloc
import zlib
from typing import Any

import pytest

from goworkers_py.core.errors import UnreadableBody
from goworkers_py.features.plain_lists import content
from goworkers_py.features.plain_lists.content import codec_name, decoded_body, uncompressed
from goworkers_py.wire.codecs import BytesCodec, JsonCodec
from goworkers_py.wire.properties import UNREADABLE, Properties


def gzipped(body: bytes) -> bytes:
    return gzip.compress(body, mtime=0)  # without the time, by which each process would name its tests in its own way


@pytest.mark.parametrize(
    ("kind", "codec"),
    [
        ("", "json"),
        ("application/json", "json"),
        ("text/json", "json"),
        ("application/cloudevents+json", "json"),
        ("text/plain", "text"),
        ("text/csv", "text"),
        ("application/msgpack", "msgpack"),
        ("application/x-msgpack", "msgpack"),
        ("application/octet-stream", "bytes"),
        ("application/x-protobuf", "bytes"),
    ],
)
def test_a_content_type_has_a_codec(kind: str, codec: str) -> None:
    assert codec_name(kind) == codec


@pytest.mark.parametrize("kind", ["application/xml", "image/png", "application/x-python-serialize", "json", "text"])
def test_another_content_type_is_not_guessed(kind: str) -> None:
    with pytest.raises(UnreadableBody, match=f"no codec for the content type {kind}: set codec ="):
        codec_name(kind)


GRUSS = "grüße"


@pytest.mark.parametrize(
    ("body", "kind", "encoding", "value"),
    [
        (b'{"a": 1}', None, None, {"a": 1}),
        (b'{"a": 1}', "Application/JSON; Charset=UTF-8", None, {"a": 1}),
        (GRUSS.encode("latin-1"), "text/plain; charset=iso-8859-1", None, GRUSS),
        (GRUSS.encode("latin-1"), 'text/plain; charset="iso-8859-1"', None, GRUSS),
        (GRUSS.encode(), "text/plain", None, GRUSS),
        (GRUSS.encode("utf-16"), "text/plain", "utf-16", GRUSS),  # as Celery and kombu say it
        (f'"{GRUSS}"'.encode("latin-1"), "application/json", "ISO-8859-1", GRUSS),
        (b'{"a": 1}', "application/json", "binary", {"a": 1}),
        (b"\xff", "application/octet-stream", "binary", b"\xff"),
        (b"\xff", "application/octet-stream", "utf-8", b"\xff"),
        (gzipped(b"[1]"), "application/json", "gzip", [1]),
        (gzipped(b"[1") + gzipped(b"]"), "application/json", "GZIP", [1]),
        (gzipped(b"[1") + bytes(content.AT_ONCE) + gzipped(b"]") + bytes(9), "application/json", "gzip", [1]),
        (b"", "application/octet-stream", "gzip", b""),
        (zlib.compress(b"[1]"), "application/json", "deflate", [1]),
        (zlib.compress(b"[1]") + b"\r\n", "application/json", "deflate", [1]),
        (gzipped(GRUSS.encode("latin-1")), "text/plain; charset=latin-1", "gzip", GRUSS),
    ],
)
def test_a_body_is_decoded_as_its_message_says(body: bytes, kind: str | None, encoding: str | None, value: Any) -> None:
    assert decoded_body(body, Properties(content_type=kind, content_encoding=encoding), None) == value


def test_a_body_without_properties_is_json() -> None:
    assert decoded_body(b"[1]", None, None) == [1]


def test_the_codec_of_the_configuration_goes_before_the_content_type() -> None:
    told = Properties(content_type="text/plain; charset=utf-16", content_encoding="zstd")
    assert decoded_body(b"[1]", told, JsonCodec()) == [1]
    assert decoded_body(b"[1]", told, BytesCodec()) == b"[1]"
    assert decoded_body(gzipped(b"[1]"), Properties(content_encoding="gzip"), BytesCodec()) == b"[1]"


@pytest.mark.parametrize(
    ("body", "kind", "encoding", "told"),
    [
        (b"<a/>", None, None, "no content type, so it was read as JSON; `codec` of the queue names another codec"),
        (b"{", "application/json", None, r"JsonCodec cannot decode the body: .* \(content type application/json;"),
        (b"[NaN]", "application/json", None, "NaN is not JSON"),
        (b"\xff", "text/plain", None, "TextCodec cannot decode the body"),
        (b"a", "text/plain; charset=klingon", None, "character set or content encoding klingon: .*unknown encoding"),
        (b"a", "text/plain; charset=rot13", None, "character set or content encoding rot13"),
        (b"[1]", "application/json", "zstd", "character set or content encoding zstd"),
        (b"[1]", "application/json", "gzip", "content encoding gzip: .*incorrect header check"),
        (gzipped(b"[1]")[:-4], "application/json", "gzip", "content encoding gzip: "),
        (gzipped(b"[1]") + bytes(9) + b"[1]", "application/json", "gzip", "content encoding gzip: .*incorrect header"),
        (zlib.compress(b"[1]")[:-2], "application/json", "deflate", "content encoding deflate: .*too early"),
        (b"[1]", "application/json", "deflate", "content encoding deflate: "),
    ],
)
def test_a_body_that_cannot_be_decoded_says_why(body: bytes, kind: str | None, encoding: str | None, told: str) -> None:
    with pytest.raises(UnreadableBody, match=told):
        decoded_body(body, Properties(content_type=kind, content_encoding=encoding), None)


@pytest.mark.parametrize(("encoding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_a_small_body_that_stands_for_a_very_large_one_is_unreadable(
    encoding: str, compress: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Properties(content_encoding=encoding)
    with pytest.raises(UnreadableBody, match="more than 16777216 bytes"):
        uncompressed(compress(bytes(2**24 + 1)), told)
    monkeypatch.setattr(content, "LARGEST", 1000)
    assert uncompressed(compress(bytes(1000)), told) == bytes(1000)
    with pytest.raises(UnreadableBody, match="more than 1000 bytes"):
        uncompressed(compress(bytes(1001)), told)


@pytest.mark.parametrize("size", [0, 1, content.AT_ONCE - 1, content.AT_ONCE, 3 * content.AT_ONCE, 300_001])
@pytest.mark.parametrize(("encoding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_a_body_is_unpacked_to_its_last_byte(encoding: str, compress: Any, size: int) -> None:
    for whole in (bytes(size), random.Random(size).randbytes(size)):
        packed = compress(whole)
        assert uncompressed(packed, Properties(content_encoding=encoding)) == whole
        with pytest.raises(UnreadableBody, match="too early"):
            uncompressed(packed[:-1], Properties(content_encoding=encoding))
    if encoding == "gzip":
        assert uncompressed(compress(whole) * 3, Properties(content_encoding=encoding)) == whole * 3


def test_a_bomb_is_refused_before_it_takes_memory() -> None:
    packed = gzip.compress(bytes(2**27), 1)
    tracemalloc.start()
    try:
        with pytest.raises(UnreadableBody):
            uncompressed(packed, Properties(content_encoding="gzip"))
        assert tracemalloc.get_traced_memory()[1] < 1.2 * 2**24
    finally:
        tracemalloc.stop()


def test_a_message_whose_headers_cannot_be_read_is_unreadable() -> None:
    with pytest.raises(UnreadableBody, match="headers of the message"):
        decoded_body(b"[1]", Properties(headers={UNREADABLE: b"\x00"}), JsonCodec())


def test_values_that_are_no_text_are_left_out() -> None:
    assert decoded_body(b"[1]", Properties(content_type=b"\xff", content_encoding=b"\xff"), None) == [1]  # type: ignore[arg-type]
