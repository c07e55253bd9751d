"""Codecs: bodies as bytes, and back."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from generated_messages import generated_message

from goworkers_py import ArgumentError, ConfigError, UnreadableBody
from goworkers_py.wire.codecs import NAMED, ProtobufCodec, codec_from, decoded, encoded


class Reversed:
    def encode(self, value: Any) -> bytes:
        return str(value)[::-1].encode()

    def decode(self, body: bytes) -> str:
        return body.decode()[::-1]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("json", {"to": "Ada", "lines": [1, 2.5, None, True], "größe": "ü"}),
        ("json", "a text alone"),
        ("text", "grüße"),
        ("bytes", b"\x00\xff"),
        ("msgpack", {"raw": b"\x00\xff", "lines": [1, None]}),
    ],
)
def test_each_named_codec_reads_what_it_has_written(name: str, value: Any) -> None:
    codec = codec_from(name, "here")
    assert decoded(codec, encoded(codec, value)) == value


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("json", b"{"),
        ("json", b"NaN"),
        ("json", b"\xff"),
        ("json", b"[" * 100_000),
        ("text", b"\xff"),
        ("msgpack", b"\xc1"),
    ],
)
def test_a_body_that_cannot_be_decoded_is_an_unreadable_body_and_names_the_codec(name: str, body: bytes) -> None:
    codec = codec_from(name, "here")
    with pytest.raises(UnreadableBody, match=type(codec).__name__):
        decoded(codec, body)


@pytest.mark.parametrize(
    ("name", "value"), [("json", {1: 2}), ("json", float("nan")), ("text", b"x"), ("bytes", "x"), ("msgpack", object())]
)
def test_a_value_that_a_codec_cannot_write_is_refused_at_the_push(name: str, value: Any) -> None:
    with pytest.raises(ArgumentError):
        encoded(codec_from(name, "here"), value)


def test_a_codec_of_ones_own_is_an_object_or_a_class_with_encode_and_decode() -> None:
    for given in (Reversed, Reversed()):
        codec = codec_from(given, "here")
        assert encoded(codec, "abc") == b"cba"
        assert decoded(codec, b"cba") == "abc"


@pytest.mark.parametrize("given", ["jason", object(), object])
def test_what_is_no_codec_is_refused_with_the_names_of_those_there_are(given: object) -> None:
    with pytest.raises(ConfigError, match=r"\[queue:mail\] codec: .*; choose json, text, bytes, msgpack, or an object"):
        codec_from(given, "[queue:mail] codec")
    assert list(NAMED) == ["json", "text", "bytes", "msgpack"]


def test_a_codec_that_does_not_return_bytes_is_told_so() -> None:
    class Wrong(Reversed):
        def encode(self, value: Any) -> Any:
            return str(value)

    with pytest.raises(ArgumentError, match=r"Wrong\.encode must return bytes, not str"):
        encoded(Wrong(), "x")


def test_msgpack_says_what_to_install_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "msgpack", None)
    with pytest.raises(ConfigError, match=r"pip install 'goworkers-py\[msgpack\]'"):
        codec_from("msgpack", "here")


def test_protobuf_reads_and_writes_the_fields_of_a_generated_class() -> None:
    codec = ProtobufCodec(
        generated_message("CodecMail", {"to": "string", "copies": "int32", "tags": "repeated string"})
    )
    assert codec.fields == ["to", "copies", "tags"]
    body = encoded(codec, {"to": "Ada", "tags": ["a", "b"]})
    assert decoded(codec, body) == {"to": "Ada", "copies": 0, "tags": ["a", "b"]}
    with pytest.raises(UnreadableBody):
        decoded(codec, b"\xff\xff")
    with pytest.raises(ArgumentError):
        encoded(codec, {"copies": 2**40})
    with pytest.raises(ConfigError, match="a class that protoc has generated"):
        ProtobufCodec(dict)
