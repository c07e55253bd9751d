"""The names of the keys in Redis. Those of a feature are in its `redis_part`, and no other module spells a key;
`access` spells patterns for the access rules.

A namespace is a prefix `name:` on every key, as in redis-namespace and go-workers. Members of sets and JSON have no
prefix.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from goworkers_py.brokers.redis.server.key_patterns import literally
from goworkers_py.core import machine
from goworkers_py.core.levels import BARE, bare_list_of


class Keys:
    def __init__(self, namespace: str = "") -> None:
        self.prefix = f"{namespace}:" if namespace else ""
        # Sidekiq's
        self.queues = f"{self.prefix}queues"
        self.schedule = f"{self.prefix}schedule"
        self.retry = f"{self.prefix}retry"
        self.dead = f"{self.prefix}dead"
        self.paused = f"{self.prefix}paused"
        self.processed = f"{self.prefix}stat:processed"
        self.failed = f"{self.prefix}stat:failed"
        self.processes = f"{self.prefix}processes"
        self.process_cleanup = f"{self.prefix}process_cleanup"
        # ours
        self.owners = f"{self.prefix}pyworkers:owners"
        self.blocks = f"{self.prefix}pyworkers:blocks"
        self.lines = f"{self.prefix}pyworkers:lines"
        self.outboxes = f"{self.prefix}pyworkers:outboxes"
        self.gone = f"{self.prefix}pyworkers:gone"
        self.audit = f"{self.prefix}pyworkers:audit"
        # Never exists. Nobody can guess it: with a value of a wrong type, no push could try its commands there.
        self.nothing = f"{self.prefix}pyworkers:none:{machine.token_hex(8)}"

    @property
    def types(self) -> dict[str, str]:
        """The right type of each key that all queues share, by the names that the server's TYPE returns."""
        return {
            **dict.fromkeys((self.queues, self.paused, self.processes, self.lines, self.outboxes), "set"),
            **dict.fromkeys((self.schedule, self.retry, self.dead), "zset"),
            **dict.fromkeys((self.processed, self.failed), "string"),
            **dict.fromkeys((self.owners, self.blocks, self.gone), "hash"),
            self.audit: "stream",
        }

    def queue(self, name: str) -> str:
        """Another program's list has no prefix: its name is the whole key."""
        return (BARE in name and bare_list_of(name)) or self.own_queue(name)

    def own_queue(self, name: str) -> str:
        return f"{self.prefix}queue:{name}"

    def inprogress(self, queue: str, owner: str) -> str:
        """`owner` is an identity of ours, or go-workers' fixed process name."""
        return self.own_queue(queue) + self.inprogress_of(owner)

    def inprogress_of(self, owner: str) -> str:
        """The end of the names of all in-progress lists of this owner."""
        return f":{owner}:inprogress"

    @property
    def any_inprogress(self) -> str:
        """A pattern for SCAN, for every in-progress list."""
        return literally(self.prefix) + "queue:*:inprogress"

    def queue_and_owner(self, inprogress: str, queues: Iterable[str]) -> tuple[str, str]:
        """Both names in the key of an in-progress list. They may hold colons, so `queues` are the known names."""
        middle = inprogress.removeprefix(self.prefix).removeprefix("queue:").removesuffix(":inprogress")
        for queue in sorted(queues, key=len, reverse=True):
            if middle.startswith(f"{queue}:"):
                return queue, middle.removeprefix(f"{queue}:")
        queue, _, owner = middle.rpartition(":")
        return queue, owner

    def lease(self, owner: str) -> str:
        """Exists while its owner lives."""
        return f"{self.prefix}pyworkers:lease:{owner}"

    def holder(self, process: str) -> str:  # the identity that uses a fixed process name now
        return f"{self.prefix}pyworkers:process:{process}"

    def receipt(self, settler: str) -> str:
        """Holds the number and the results of the settler's last batch."""
        return f"{self.prefix}pyworkers:receipt:{settler}"

    def fence(self, name: str) -> str:
        """Holds the lease of a fence: the token of its term."""
        return f"{self.prefix}pyworkers:leader:{name}"

    def line(self, name: str) -> str:
        """Holds the jobs that are parked in a line."""
        return f"{self.prefix}pyworkers:line:{name}"

    def outbox(self, to: str) -> str:
        """Holds the pushes that are to be relayed to another broker."""
        return f"{self.prefix}pyworkers:outbox:{to}"

    def value(self, kind: str, jid: str) -> str:
        """Holds what an effect of a job has stored."""
        return f"{self.prefix}pyworkers:value:{kind}:{jid}"

    def applied(self, kind: str, jid: str) -> str:
        """Exists for a day after an effect was applied that may be asked twice."""
        return f"{self.prefix}pyworkers:applied:{kind}:{jid}"

    def ended_message(self, message: str) -> str:
        """Exists for a day after the end of a job that could not be acknowledged at the queue service beside Redis."""
        return f"{self.prefix}pyworkers:ended-message:{message}"

    def pushed(self, push_id: str) -> str:
        """Exists for a day after a push with this id."""
        return f"{self.prefix}pyworkers:pushed:{push_id}"

    def processed_on(self, day: datetime.date) -> str:
        return f"{self.processed}:{day.isoformat()}"

    def failed_on(self, day: datetime.date) -> str:
        return f"{self.failed}:{day.isoformat()}"

    def day(self, day: datetime.date) -> str:
        """Counts the jobs of each queue on one day."""
        return f"{self.prefix}pyworkers:day:{day.isoformat()}"

    def member(self, identity: str) -> str:
        """Holds what a process of the fleet says of itself."""
        return f"{self.prefix}{identity}"

    def works(self, identity: str) -> tuple[str, str]:
        """Hold the jobs that a process runs. Sidekiq reads the first key since 6.4.2, and the second one before."""
        return f"{self.prefix}{identity}:work", f"{self.prefix}{identity}:workers"

    def signals(self, identity: str) -> str:
        """Holds the commands that were sent to a process."""
        return f"{self.prefix}{identity}-signals"

    def deploy_lock(self, label: str) -> str:
        return f"{self.prefix}deploylock-{label}"

    def bare(self, queue: str) -> str:
        """The queue's name without the prefix that go-workers wrongly writes into the payloads that it retries."""
        return queue.removeprefix(self.prefix) if self.prefix else queue

    # --- of Sidekiq's Metrics page

    def minute_of_seven(self, at: datetime.datetime) -> str:
        """Executions of each class in a minute, for Sidekiq 7. `at` is in UTC here and below."""
        return f"{self.prefix}j|{at:%Y%m%d}|{at.hour}:{at.minute}"

    def histogram_of_seven(self, job_class: str, at: datetime.datetime) -> str:
        return f"{self.prefix}{job_class}-{at:%d-%H}:{at.minute}"

    def minute_of_eight(self, at: datetime.datetime) -> str:
        return f"{self.prefix}j|{at:%y%m%d}|{at.hour}:{at:%M}"

    def ten_minutes_of_eight(self, at: datetime.datetime) -> str:
        return self.minute_of_eight(at)[:-1]

    def histogram_of_eight(self, job_class: str, at: datetime.datetime) -> str:
        return f"{self.prefix}h|{job_class}-{at.day}-{at.hour}:{at.minute}"

    def marks(self, day: datetime.date) -> str:
        """Marks of deploys of a day, by the minute."""
        return f"{self.prefix}{day:%Y%m%d}-marks"
