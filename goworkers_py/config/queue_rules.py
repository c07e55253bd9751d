"""The rules for queues that concern more than one option. `options` has the rules for each option."""

from __future__ import annotations

import dataclasses
import re

from goworkers_py.config.options import SERIAL, QueueConfig
from goworkers_py.config.pool_rules import Given
from goworkers_py.core.errors import ConfigError
from goworkers_py.features import FEATURES


def checked_queue(queue: QueueConfig, given: Given, where: str) -> QueueConfig:
    """The queue of a section, with the number of threads that its mode has."""
    for feature in FEATURES:
        queue = feature.queues().checked(queue, f"{where}: [queue:{queue.name}]")
    if queue.mode != SERIAL:
        return queue
    if "concurrency" in given[("queue", queue.name)]:
        return check_threads(queue, f"{where}: [queue:{queue.name}] concurrency")
    return dataclasses.replace(queue, concurrency=1)


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
