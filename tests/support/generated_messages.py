"""Classes of Protobuf messages, made by the library from a description, as the modules that protoc generates do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_POOL = descriptor_pool.DescriptorPool()
_TYPES = {"string": 9, "int32": 5, "bytes": 12, "bool": 8}


def generated_message(name: str, fields: Mapping[str, str]) -> Any:
    """`fields`: the type of each, such as `int32` or `repeated string`."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package="tests", syntax="proto3")
    message = file.message_type.add(name=name)
    for number, (field, told) in enumerate(fields.items(), start=1):
        label = 3 if told.startswith("repeated ") else 1
        message.field.add(name=field, number=number, label=label, type=_TYPES[told.split()[-1]])
    _POOL.Add(file)
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"tests.{name}"))
