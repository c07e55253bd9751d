"""Messages that resolve themselves: a class with fields, a channel and the code that runs for each message."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from goworkers_py.core.default_app import default_app
from goworkers_py.core.errors import ArgumentError, ConfigError
from goworkers_py.features.messages.payload import VERSION, TypedBody
from goworkers_py.wire.codecs import Codec, ProtobufCodec, codec_from

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack, dataclass_transform

    from goworkers_py.api.job import Job
    from goworkers_py.config.job_options import CodeOptions
else:

    def dataclass_transform():
        return lambda kind: kind


class DeclaresJobs(Protocol):
    """An App."""

    def job(self, name: str, /, **options: Unpack[CodeOptions]) -> Callable[[Callable[[Any], Any]], Job[..., Any]]: ...


@dataclass_transform()
class TypedMessage:
    """The base of messages that resolve themselves:

        class Mail(workers.TypedMessage, channel="mail", retry=5):
            to: str
            subject: str = ""

            def resolve(self) -> None:
                deliver(self.to, self.subject)

        workers.send(Mail(to="ada@example.com"))

    The fields are those of a dataclass. `channel` is the queue. `codec` is json, msgpack, protobuf (with `message=`, a
    class that protoc has generated) or an object with encode and decode. `version` counts the changes of the fields,
    see `upgrade`. `name` is the class on the wire. All other options are those of `@workers.job`.
    docs/typed-messages.md explains them.
    """

    channel: ClassVar[str] = ""
    _body: ClassVar[TypedBody]
    _job: ClassVar[Job[..., Any]]

    def __init_subclass__(
        cls,
        *,
        channel: str = "",
        codec: str | Codec = "json",
        message: object = None,
        version: int = 1,
        name: str = "",
        app: DeclaresJobs | None = None,
        **options: Unpack[CodeOptions],
    ) -> None:
        """Without `channel` the class is a base for others, and not a message."""
        super().__init_subclass__()
        dataclasses.dataclass(cls)
        if not channel:
            return
        place = f"class {cls.__qualname__}"
        if options.get("queue"):
            raise ConfigError(f"{place}: leave out queue=; channel={channel!r} is the queue")
        _check(cls, place)
        cls.channel = channel
        cls._body = TypedBody(cls, _codec_of(cls, codec, message, version, place), version, cls.upgrade)
        said: CodeOptions = {**options, "queue": channel}
        cls._job = (app or default_app()).job(name or cls.__name__, **said)(_resolving(cls))

    def resolve(self) -> Any:
        """The code that runs for a message. It may be a coroutine function."""
        raise NotImplementedError

    @classmethod
    def upgrade(cls, version: int, fields: dict[str, Any]) -> dict[str, Any] | None:
        """Changes the fields of an older version, as JSON, into those of this version. Returns them, or None when it
        has changed `fields` itself. Without an override, older messages are read as if they were of this version."""

    def marshal(self) -> bytes:
        """The body of this message."""
        return self._body.marshal(self)

    @classmethod
    def unmarshal(cls, body: bytes) -> Self:
        """The message in a body: `Mail.unmarshal(mail.marshal()) == mail`."""
        read: Self = cls._body.unmarshal(body)
        return read


def _check(cls: type[TypedMessage], place: str) -> None:
    if cls.resolve is TypedMessage.resolve:
        raise ConfigError(f"{place}: write a method `def resolve(self)` that does the work")
    if inspect.isgeneratorfunction(cls.resolve) or inspect.isasyncgenfunction(cls.resolve):
        raise ConfigError(f"{place}: resolve must not yield; write an iterable job with @workers.job instead")
    if taken := set(_fields_of(cls)) & {*vars(TypedMessage), VERSION}:
        raise ConfigError(f"{place}: give the field {min(taken)} another name; messages have an attribute of this name")


def _codec_of(cls: type[TypedMessage], codec: object, message: object, version: int, place: str) -> Codec:
    if type(version) is not int or version < 1:
        raise ConfigError(f"{place}: version must be 1, 2, ..., is {version!r}")
    if codec != "protobuf":
        if message is not None:
            raise ConfigError(f"{place}: message= is for codec='protobuf'")
        return codec_from(codec, f"{place}: codec")
    if version != 1:
        raise ConfigError(f"{place}: leave out version; the messages of Protobuf have rules of their own for changes")
    made = ProtobufCodec(message)
    for name in _fields_of(cls):
        if name not in made.fields:
            raise ConfigError(f"{place}: the Protobuf message has no field {name}; it has {', '.join(made.fields)}")
    return made


def _fields_of(cls: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(cls)]


def _resolving(cls: type[TypedMessage]) -> Callable[[Any], Any]:
    """The function of the job."""

    def run(arg: Any) -> Any:
        return cls._body.from_arg(arg).resolve()

    function: Any = run
    function.__wrapped__ = cls.resolve  # by which the registry tells the code of two classes apart
    function.__signature__ = inspect.Signature([inspect.Parameter("arg", inspect.Parameter.POSITIONAL_ONLY)])
    function.typed_body = cls._body
    run.__name__, run.__module__, run.__qualname__ = cls.__name__, cls.__module__, cls.__qualname__
    return run


def type_of(message: object) -> type[TypedMessage]:
    """Raises ArgumentError for what is no message that can be sent."""
    kind = message if isinstance(message, type) else type(message)
    if not issubclass(kind, TypedMessage) or not kind.channel:
        raise ArgumentError(
            f"{kind.__name__} is no message: write class {kind.__name__}(workers.TypedMessage, channel='...')"
        )
    return kind
