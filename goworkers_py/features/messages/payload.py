"""How the messages of one class become bodies, and back: their fields, in a version, by a codec.

In a job, the body is the only argument: the fields as JSON, or for another codec the bytes as base64, which Ruby and Go
can carry. In a plain list the body is alone.

Fields of a version from 2 on carry the version in the field `_v`. Fields without it are of version 1.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from goworkers_py.core.errors import ArgumentError, ArgumentsDoNotFit, UnreadableBody
from goworkers_py.wire.codecs import Codec, JsonCodec, ProtobufCodec, decoded, encoded
from goworkers_py.wire.conversion import converter_for
from goworkers_py.wire.message import whole_number
from goworkers_py.wire.scalars import Unconvertible, from_json, to_json

VERSION = "_v"

Fields = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class TypedBody:
    kind: Any  # the class, a dataclass
    codec: Codec
    version: int
    upgrade: Callable[[int, Fields], Fields | None]

    # --- bytes

    def marshal(self, message: object) -> bytes:
        return encoded(self.codec, self._fields(message))

    def unmarshal(self, body: bytes) -> Any:
        return self._message(decoded(self.codec, body))

    # --- the argument of a job

    def to_arg(self, message: object) -> Any:
        if type(self.codec) is JsonCodec:
            return self._fields(message)
        return base64.b64encode(self.marshal(message)).decode()

    def from_arg(self, arg: Any) -> Any:
        if type(self.codec) is JsonCodec:
            return self._message(arg)
        if not isinstance(arg, str):
            raise UnreadableBody(f"{self._name}: the argument is {type(arg).__name__}, not the body as base64")
        try:
            body = base64.b64decode(arg, validate=True)
        except (binascii.Error, ValueError) as error:
            raise UnreadableBody(f"{self._name}: the argument is no base64: {error}") from None
        return self.unmarshal(body)

    # --- fields

    @property
    def _name(self) -> str:
        name: str = self.kind.__name__
        return name

    def _fields(self, message: object) -> Fields:
        if isinstance(self.codec, ProtobufCodec):
            values = {field.name: getattr(message, field.name) for field in dataclasses.fields(self.kind)}
            return {name: value for name, value in values.items() if value is not None}
        try:
            fields: Fields = to_json(converter_for(self.kind), message)
        except Unconvertible as error:
            raise ArgumentError(f"{self._name}: {error}") from None
        return {**fields, VERSION: self.version} if self.version > 1 else fields

    def _message(self, value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise UnreadableBody(f"{self._name}: the body is {type(value).__name__}, not an object with its fields")
        if isinstance(self.codec, ProtobufCodec):
            known = {field.name for field in dataclasses.fields(self.kind)}
            return self.kind(**{name: field_value for name, field_value in value.items() if name in known})
        fields = self._upgraded(dict(value))
        try:
            return from_json(converter_for(self.kind), fields)
        except Unconvertible as error:
            raise ArgumentsDoNotFit(f"{self._name}: {error}") from None

    def _upgraded(self, fields: Fields) -> Fields:
        given = fields.pop(VERSION, 1)
        version = whole_number(given)
        if version is None or version < 1:
            raise UnreadableBody(f"{self._name}: {VERSION} is {given!r}, not the number of a version")
        if version > self.version:
            raise ArgumentsDoNotFit(
                f"{self._name}: the message is of version {version}, and this program knows versions up to "
                f"{self.version}: deploy the newer release here"
            )
        if version < self.version:
            upgraded = self.upgrade(version, fields)
            return fields if upgraded is None else upgraded
        return fields
