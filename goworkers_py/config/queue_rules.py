"""The rules for queues that concern more than one option. `options` has the rules for each option."""

from __future__ import annotations

import dataclasses
import re

from goworkers_py.config.options import PLAIN, SERIAL, QueueConfig
from goworkers_py.config.pool_rules import Given
from goworkers_py.core.errors import ConfigError


def checked_queue(queue: QueueConfig, given: Given, where: str) -> QueueConfig:
    """The queue of a section, with the number of threads that its mode has."""
    queue = _with_list(queue, f"{where}: [queue:{queue.name}]")
    if queue.mode != SERIAL:
        return queue
    if "concurrency" in given[("queue", queue.name)]:
        return check_threads(queue, f"{where}: [queue:{queue.name}] concurrency")
    return dataclasses.replace(queue, concurrency=1)


def _with_list(queue: QueueConfig, place: str) -> QueueConfig:
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
    return dataclasses.replace(queue, list_=queue.list_ or queue.name)


def check_threads(queue: QueueConfig, place: str) -> QueueConfig:
    """Raises ConfigError for a queue in serial mode that is to have several threads."""
    if queue.mode == SERIAL and queue.concurrency != 1:
        raise ConfigError(
            f"{place} is {queue.concurrency}, but queue {queue.name} has mode = serial, which is one thread: leave out "
            "the number, or the mode"
        )
    return queue


def refuse_weights(flag: str) -> None:
    """Raises ConfigError for a flag in the way of Sidekiq."""
    if as_in_sidekiq := re.fullmatch(r"(.+)[,:](\d+)", flag):
        name, number = as_in_sidekiq.groups()
        raise ConfigError(
            f"--queue {flag!r}: write the threads as {name}={number}; queues with weights, as in Sidekiq, share a pool "
            f"in the file: [pool:NAME] with queues = {name}, ... and weights = {number}, ..."
        )
