"""Publishes, consumes and settles jobs in Disque, and keeps those that run from being delivered again."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterator, Sequence

from goworkers_py.brokers.contracts.transport import Published, Settled, SettlementBatch, Transport
from goworkers_py.brokers.disque.address import Address
from goworkers_py.brokers.disque.commands import DisqueCommands
from goworkers_py.brokers.disque.consumer import DisqueConsumer, Fetched
from goworkers_py.brokers.disque.keeper import DisqueKeeper
from goworkers_py.brokers.disque.nodes import Nodes, error_of, refusal_in
from goworkers_py.brokers.disque.settlement import DisqueSettlement
from goworkers_py.core import machine
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import BrokerError, BrokerRefused
from goworkers_py.policy.priorities import Ask

log = logging.getLogger(__name__)


class DisqueTransport(Transport):
    """The receipt of a delivery is its `Fetched`: Disque ends a job by its id."""

    def __init__(self, address: Address, commands: DisqueCommands, poison_limit: int) -> None:
        self._commands, self._poison_limit = commands, poison_limit
        self._nodes = Nodes(address.nodes)
        self._settlement = DisqueSettlement(self._nodes, commands)
        self._keeper = DisqueKeeper(self._nodes, address.retry_s)
        # By the queues that are consumed together. Their fetcher's thread adds the entry; `wake` reads in any thread.
        self._consumers: dict[frozenset[str], DisqueConsumer] = {}
        self._woken: set[str] = set()  # queues that were woken before their first consume

    def publish(self, pushes: Sequence[Push]) -> list[Published]:
        """When it raises, some of several pushes may be in their queues: Disque has no step for several jobs."""
        if any(push.ties for push in pushes):
            raise BrokerRefused(
                "Disque keeps no records, locks, batches, groups and limits: push such jobs to a partition on Redis"
            )
        now = machine.time()
        commands = [self._commands.add(push.queue, push.payload, push.at, now) for push in pushes]
        replies = self._nodes.exchange(commands) if commands else []
        if refused := [reply for reply in replies if refusal_in(reply)]:
            error = error_of(refused[0])
            if isinstance(error, BrokerError):
                error.places = frozenset(at for at, reply in enumerate(replies) if not refusal_in(reply))
            raise error
        return [Published.PUSHED] * len(pushes)

    def consume(self, identity: str, asks: Sequence[Ask], limit: int, wait_s: float = math.inf) -> list[Delivery]:
        fetched = self._consumer([queue for queue, _ in asks]).consume(asks, limit, wait_s)
        fetched = [job for job in fetched if not self._is_buried(job)]
        if fetched:
            self._keeper.keep(fetched)
        return [Delivery(job.payload, job.queue, identity, job) for job in fetched]

    def _is_buried(self, job: Fetched) -> bool:
        """Buries a job that was not ended by so many processes that it may be what has killed them."""
        if not self._poison_limit or job.deliveries < self._poison_limit:
            return False
        try:
            self._settlement.bury(job.job_id, job.payload)
        except BrokerError as error:  # the jobs that were fetched with it are run
            log.error("not buried, and delivered again: %s queue=%s job=%s", error, job.queue, job.job_id.decode())
            return True
        log.error(
            "buried: delivered %d times, and no process has ended it in time; look at it in the queue %s before you "
            "push it again queue=%s job=%s", job.deliveries, self._commands.dead, job.queue, job.job_id.decode()
        )  # fmt: skip
        return True

    def end_waits(self, queues: Sequence[str]) -> list[Delivery]:
        return []  # its waits end before `consume` returns

    def lost_replies(self, identity: str, queue: str, known: Collection[Delivery], thorough: bool) -> list[Delivery]:
        return []  # Disque delivers such jobs again

    def paused(self) -> set[str]:
        return set()  # PAUSE of Disque itself holds back the jobs of a queue

    def wake(self, queue: str) -> None:
        self._woken.add(queue)
        for consumer in self._consumers_of([queue]):
            consumer.wake()

    def settle(self, batch: SettlementBatch) -> Sequence[Settled]:
        results = self._settlement.settle(batch)
        for (delivery, _), result in zip(batch.finished, results, strict=True):
            if isinstance(result, bool):
                self._keeper.forget(delivery.receipt.job_id)
        return results

    def _consumer(self, queues: Sequence[str]) -> DisqueConsumer:
        known = next(self._consumers_of(queues), None)
        if known is None:
            known = self._consumers[frozenset(queues)] = DisqueConsumer(self._nodes, self._commands)
            if not self._woken.isdisjoint(queues):
                known.wake()
        return known

    def _consumers_of(self, queues: Sequence[str]) -> Iterator[DisqueConsumer]:
        return (consumer for pool, consumer in list(self._consumers.items()) if pool.issuperset(queues))

    def close(self) -> None:
        self._keeper.close()
        for consumer in list(self._consumers.values()):
            consumer.close()
        self._nodes.close()
