"""The queues with bare bodies: which options of a section [queue:NAME] go together, which code runs the bodies, and
which job a body is."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from goworkers_py.config.queue_options import QueueConfig
from goworkers_py.core.errors import ConfigError
from goworkers_py.features.parts import Queues
from goworkers_py.features.plain_lists.options import PLAIN

if TYPE_CHECKING:
    from goworkers_py.config.job_options import CodeOptions
    from goworkers_py.policy.registry import QueueHandler, Registry
    from goworkers_py.wire.properties import Properties


def with_list(queue: QueueConfig, place: str) -> QueueConfig:
    """Of plain format, a queue that names no list takes the bodies of the list with its own name."""
    if queue.format != PLAIN:
        said = {"list": queue.list_, "in_progress": queue.in_progress, "codec": queue.codec}
        wrong = [name for name, value in said.items() if value]
        if wrong:
            raise ConfigError(f"{place} {wrong[0]}: add format = plain, or leave it out")
        return queue
    if queue.priorities:
        raise ConfigError(f"{place} priorities: bodies of a plain list have none; leave the option out")
    if queue.in_progress and queue.in_progress.count("{n}") != 1:
        raise ConfigError(f"{place} in_progress must have {{n}} where the consumers have their number: demo.doing{{n}}")
    return dataclasses.replace(queue, bare_list=queue.list_ or queue.name)


def _handler(queue: QueueConfig, registry: Registry) -> tuple[QueueHandler, CodeOptions] | None:
    if not queue.bare_list:
        return None
    from goworkers_py.features.plain_lists.handler import plain_handler

    return plain_handler(queue, registry)


def _job_of_body(body: bytes, queue: str, at: float, properties: Properties | None) -> bytes:
    from goworkers_py.features.plain_lists.payload import wrapped

    return wrapped(body, queue, at, properties)


QUEUES = Queues(checked=with_list, handler=_handler, job_of_body=_job_of_body)
