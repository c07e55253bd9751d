"""The access rules of plain lists: other programs have chosen the names of the keys, and the configuration has them."""

from __future__ import annotations

from goworkers_py.brokers.redis.server.access import FeatureAccess, ProducerRight
from goworkers_py.brokers.redis.server.key_patterns import literally
from goworkers_py.config.options import Config


def _keys(config: Config) -> list[str]:
    lists = [queue for queue in config.queues if queue.bare_list]
    return [key for queue in lists for key in (queue.bare_list, queue.in_progress.replace("{n}", "*")) if key]


def _pushed(config: Config) -> list[ProducerRight]:
    return [ProducerRight("lpush", literally(queue.bare_list)) for queue in config.queues if queue.bare_list]


ACCESS = FeatureAccess(named_keys=_keys, named_pushes=_pushed)
