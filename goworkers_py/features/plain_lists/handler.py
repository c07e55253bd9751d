"""Finds the code that runs the bodies of other programs, from a plain list or a queue of RabbitMQ."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from goworkers_py.config.job_options import NOTHING_SAID, CodeOptions
from goworkers_py.config.user_code import resolve
from goworkers_py.core.errors import ConfigError, UnknownJob
from goworkers_py.features.messages.payload import TypedBody
from goworkers_py.features.plain_lists.content import decoded_body, uncompressed
from goworkers_py.features.plain_lists.payload import body_of
from goworkers_py.wire.codecs import NAMED, Codec, codec_from

if TYPE_CHECKING:
    from goworkers_py.config.options import QueueConfig
    from goworkers_py.policy.registry import QueueHandler, Registry
    from goworkers_py.wire.message import Message


def plain_handler(queue: QueueConfig, registry: Registry) -> tuple[QueueHandler, CodeOptions]:
    """The handler of a queue of plain format, which runs the bodies from its list and their retries, and the options
    for them."""
    place = f"[queue:{queue.name}]"
    if queue.handler:
        codec = _codec(queue.codec, f"{place} codec") if queue.codec else None
        return _decoding(resolve(queue.handler, f"{place} handler"), codec, queue), NOTHING_SAID
    typed = [(spec, body) for spec in registry.jobs_of(queue.name) if (body := typed_body_of(spec.function))]
    if len(typed) != 1:
        found = f"there are {len(typed)} message classes" if typed else "there is no message class"
        raise ConfigError(
            f"{place} format = plain: {found} with channel={queue.name!r}; set handler = module:function, or write one "
            "such class in a module of `require`"
        )
    [(spec, body)] = typed
    return _resolving(body, queue), spec.options


def typed_body_of(function: Callable[..., Any]) -> TypedBody | None:
    """The body of a function which resolves typed messages."""
    body = getattr(function, "typed_body", None)
    return body if isinstance(body, TypedBody) else None


def _codec(name: str, place: str) -> Codec:
    return codec_from(resolve(name, place) if ":" in name and name not in NAMED else name, place)


def _decoding(function: Callable[[Any], Any], codec: Codec | None, queue: QueueConfig) -> QueueHandler:
    def run(message: Message) -> Any:
        body = body_of(message.fields)
        if body is None:
            raise UnknownJob(
                f"queue {queue.name} takes the bodies of {queue.bare_list} only, and this is a job of class "
                f"{message.job_class!r}: push it into another queue"
            )
        return function(decoded_body(body, message.properties, codec))

    return run


def _resolving(typed: TypedBody, queue: QueueConfig) -> QueueHandler:
    def run(message: Message) -> Any:
        body = body_of(message.fields)
        if body is not None:
            return typed.unmarshal(uncompressed(body, message.properties)).resolve()
        # Sent with a delay or with options: a job, as in every other queue.
        args = message.args if isinstance(message.args, list) else []
        return typed.from_arg(args[0] if args else None).resolve()

    return run
