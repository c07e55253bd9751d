"""The user's functions that are called when a run has failed, and when a job has ended without being run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goworkers_py.wire.message import Message

log = logging.getLogger("goworkers_py.job")

FailureHandler = Callable[["Message", BaseException], None]
EndHandler = Callable[["Message"], None]


class Handlers:
    """`f(message, error)`: `error` for every failed run, `death` for a job that is not retried."""

    def __init__(self, error: Iterable[FailureHandler] = (), death: Iterable[FailureHandler] = ()) -> None:
        self.error, self.death = list(error), list(death)

    def tell_of_error(self, message: Message, error: BaseException) -> None:
        tell(self.error, message, error)

    def tell_of_death(self, message: Message, error: BaseException) -> None:
        tell(self.death, message, error)


def tell(handlers: Sequence[Callable[..., None]], *arguments: object) -> None:
    for handler in handlers:
        try:
            handler(*arguments)
        except BaseException:
            log.exception("handler %r failed", handler)
