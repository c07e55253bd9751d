"""The options of a plain list in a section [queue:NAME]."""

from __future__ import annotations

from goworkers_py.config.option_rows import option
from goworkers_py.config.parsers import one_of, text
from goworkers_py.core.values import dataclass

PLAIN = "plain"


@dataclass(frozen=True, kw_only=True)
class PlainListOptions:
    __slots__ = ()

    format: str = option(
        "sidekiq",
        one_of("sidekiq", PLAIN),
        "sidekiq, or plain: other programs push bare bodies to `list`, see docs/plain-lists.md",
    )
    list_: str = option(
        "",
        text,
        "for format = plain: list in Redis, or queue in RabbitMQ, with the bodies; empty: that of this name",
    )
    in_progress: str = option(
        "", text, "for format = plain: the lists of the other program's consumers, such as demo.doing{n}; empty: none"
    )
    codec: str = option(
        "", text, "for format = plain: json, text, bytes, msgpack or module:Class; empty: by content type, else json"
    )
