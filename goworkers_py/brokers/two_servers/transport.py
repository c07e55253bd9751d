"""The queues of two servers: a pool works a queue of the queue service and the queue of the same name in the store.

A plain push goes to the queue service. The store takes the jobs that it alone can keep: those that wait for a time, and
those with an id, a record, a lock, a batch, a group or a limit. When their time has come, they are in the queues of the
store, where other programs may push jobs too. Each job is settled on the server that it came from; those of the queue
service as `StoreFirst` says. Bare bodies come from the queue service only.

While the queue service is away, a pool works its queues in the store alone, see `ServiceProbe`. While the store is
away, nothing is taken: no job could end.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from itertools import count

from goworkers_py.brokers.contracts.store import Store
from goworkers_py.brokers.contracts.transport import Pollable, PublishResult, Settled, SettlementBatch, Transport
from goworkers_py.brokers.two_servers.service_probe import ServiceProbe
from goworkers_py.brokers.two_servers.settlement import PIECES, Results, SettlementPart, StoreFirst
from goworkers_py.brokers.two_servers.store_watch import StoreWatch
from goworkers_py.core import machine
from goworkers_py.core.delivery import FETCHED, Delivery
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import BrokerError, BrokerFull, BrokerRefused, BrokerUnavailable, ConfigError, LeaseGone
from goworkers_py.core.levels import bare_list_of
from goworkers_py.core.outcome import DONE, NOT_SETTLED, REQUEUE, Outcome
from goworkers_py.policy.priorities import Ask
from goworkers_py.wire.message import describe_job

log = logging.getLogger(__name__)

AWAY_PAUSE_S = 0.5
# The receipt of the store's deliveries: a Pollable finds them again without its own.
STORED = "stored"


class ServicePool:
    """The queues that are consumed together. The fetcher's thread of these queues uses it."""

    def __init__(self, queues: frozenset[str], watch: StoreWatch) -> None:
        self.queues, self.watch = queues, watch
        self.identity = ""  # of the last `consume`
        self._turn = 0

    def next_turn(self, servers: tuple[Take, Take]) -> tuple[Take, Take]:
        """In another order each time, so that no server is served before the other for long."""
        self._turn ^= 1
        return servers if self._turn else servers[::-1]

    def begin_with_store(self) -> None:
        """In the next call: it has failed. If the other server were asked first, its jobs would hide that."""
        self._turn = 0


Take = Callable[[ServicePool, str, Sequence[Ask], int], list[Delivery]]


class TwoServerTransport(Transport):
    leaves_waits = True

    def __init__(self, name: str, service: Transport, stored: Transport, store: Store) -> None:
        """`service`: the queues of the queue service of this name. `stored`: those of the store's server."""
        if not isinstance(stored, Pollable):
            raise ConfigError(
                f"the store beside {name} cannot leave waits running while {name} is asked: name a Redis, such as "
                "redis://localhost/0"
            )
        self._service, self._stored, self._polled = service, stored, stored
        self._polled.leave_waits()
        self._store_first = StoreFirst(service, store)
        self._parts = dict[str, SettlementPart]()  # by settler; each use is one step
        # Deliveries of the queue service that are not settled. The fetchers' threads add them, the settlers' threads
        # remove them: each in one step.
        self._held: set[Delivery] = set()
        self._cut_short: set[str] = set()  # queues of which a reply of the store may have been lost
        self._woken: set[str] = set()  # queues whose wait is to end, or the next one that would begin
        self._pools: list[ServicePool] = []  # each is appended by the fetcher's thread of its queues
        self._numbers = count(1)  # of our own batches
        self._probe = ServiceProbe(name, service, self._on_return)

    def publish(self, pushes: Sequence[Push]) -> Sequence[PublishResult]:
        """All on one server, because they are published all or not at all."""
        for_store = any(push.at is not None or push.tied for push in pushes)
        return (self._stored if for_store else self._service).publish(pushes)

    # --- consuming

    def consume(self, identity: str, asks: Sequence[Ask], limit: int, wait_s: float = math.inf) -> list[Delivery]:
        pool = self._pool([queue for queue, _ in asks])
        if pool.identity != identity and self._has_given_back(pool, identity):
            pool.identity = identity
        taken: list[Delivery] = []
        failures: list[BrokerError] = []
        servers = pool.next_turn((self._take_stored, self._take_of_service))
        for part in _rounds(asks):
            for take in servers:
                if len(taken) < limit and not any(map(_is_outage, failures)):
                    try:
                        taken += take(pool, identity, part, limit - len(taken))
                    except BrokerError as error:
                        failures.append(error)
        if failures and not taken:
            raise failures[0]
        return taken if taken or wait_s <= 0 or limit <= 0 else self._wait(pool, identity, asks, limit, wait_s)

    def _take_stored(
        self, pool: ServicePool, identity: str, asks: Sequence[Ask], limit: int, wait_s: float = 0.0
    ) -> list[Delivery]:
        try:
            return _marked(self._stored.consume(identity, _of_store(asks), limit, wait_s))
        except BrokerError:
            self._cut_short.update(pool.queues)  # the caller may not see this error
            pool.begin_with_store()
            raise

    def _take_of_service(
        self, pool: ServicePool, identity: str, asks: Sequence[Ask], limit: int, wait_s: float = 0.0
    ) -> list[Delivery]:
        """Nothing comes while the service is away: `check` tells that, unless the pool has no queue in the store."""
        if (away := self._probe.away) is None:
            try:
                return self._of_service(self._service.consume(identity, asks, limit, wait_s))
            except BrokerError as error:
                if not _is_outage(error):
                    raise
                self._probe.failed(error)
                away = error
        if not _of_store(asks):
            raise self._probe.named(away)
        return []

    def _wait(self, pool: ServicePool, identity: str, asks: Sequence[Ask], limit: int, wait_s: float) -> list[Delivery]:
        at_store = self._probe.away is not None  # first: from now on `wake` and `_on_return` end the wait there
        if not at_store:
            pool.watch.watch(self._polled.begin_waits(identity, _of_store(asks)))
        if woken := self._woken & pool.queues:  # before the two were asked: the service has forgotten it
            self._woken -= woken
            return []
        return (self._take_stored if at_store else self._take_of_service)(pool, identity, asks, limit, wait_s)

    def _pool(self, queues: Sequence[str]) -> ServicePool:
        """The pool of these queues, or one that has more."""
        wanted = frozenset(queues)
        pool = next((pool for pool in list(self._pools) if pool.queues >= wanted), None)
        if pool is None:
            first = queues[0]
            pool = ServicePool(wanted, StoreWatch(lambda: self.wake(first)))
            self._pools.append(pool)
        return pool

    def _has_given_back(self, pool: ServicePool, identity: str) -> bool:
        """After the lease of the earlier identity has ended: no worker begins a job that was fetched under it. The
        store's jobs were recovered; the queue service has no leases, and gets its jobs back. False while it does not
        take them: then the next call tries again."""
        held = [delivery for delivery in list(self._held) if delivery.queue in pool.queues]
        stale = [delivery for delivery in held if delivery.stage is FETCHED and delivery.identity != identity]
        if not stale:
            return True
        if self._probe.away is not None:
            return False
        returned = [(delivery, REQUEUE) for delivery in stale]
        try:
            results = self._service.settle(SettlementBatch(f"{identity}:stale", next(self._numbers), returned))
        except BrokerError as error:
            if not _is_outage(error):
                raise
            self._probe.failed(error)
            return False
        settled = [delivery for delivery, result in zip(stale, results, strict=True) if isinstance(result, bool)]
        self._held.difference_update(settled)
        return len(settled) == len(stale)

    def _of_service(self, taken: list[Delivery]) -> list[Delivery]:
        self._held.update(taken)
        if again := [delivery for delivery in taken if delivery.again and delivery.message_id]:
            gone = self._end_again(again)
            return [delivery for delivery in taken if delivery not in gone]
        return taken

    def _end_again(self, again: Sequence[Delivery]) -> Collection[Delivery]:
        """Ends those that have ended before. Returns the deliveries that are not to run."""
        outcome: Outcome = DONE
        try:
            gone: Collection[Delivery] = self._store_first.known_ends(again)
        except BrokerUnavailable:  # they come again: if they were run, they could not end before the store is back
            gone, outcome = again, REQUEUE
        except BrokerRefused as error:
            log.error("cannot ask whether jobs that came again have ended, and they run: %s", error)
            return ()
        if gone:
            first = again[0]
            settler = f"{first.identity}:again:{first.queue}"  # of one thread
            with suppress(BrokerError):  # the connection is lost: they come again
                self._service.settle(
                    SettlementBatch(settler, next(self._numbers), [(delivery, outcome) for delivery in gone])
                )
            self._held.difference_update(gone)
            if outcome is REQUEUE:
                machine.Event().wait(AWAY_PAUSE_S)  # they come again at once
        if gone and outcome is DONE:
            jobs = "; ".join(describe_job(delivery.payload, delivery.queue) for delivery in gone)
            log.warning("acknowledged and not run: %d jobs that came again after they had ended: %s", len(gone), jobs)
        return gone

    def end_waits(self, queues: Sequence[str]) -> list[Delivery]:
        in_store = [queue for queue in queues if not bare_list_of(queue)]
        taken = _marked(self._stored.end_waits(in_store)) if in_store else []
        if self._probe.away is None:
            try:
                taken += self._of_service(self._service.end_waits(queues))
            except BrokerError as error:
                if not _is_outage(error):
                    raise
                self._probe.failed(error)
        return taken

    def lost_replies(self, identity: str, queue: str, known: Collection[Delivery], thorough: bool) -> list[Delivery]:
        if bare_list_of(queue):
            return []
        of_store = [delivery for delivery in known if is_stored(delivery)]
        lost = _marked(self._stored.lost_replies(identity, queue, of_store, thorough or queue in self._cut_short))
        self._cut_short.discard(queue)
        return lost

    def paused(self) -> set[str]:
        return self._stored.paused()  # a queue service knows none

    def check(self) -> None:
        self._probe.check()

    def wake(self, queue: str) -> None:
        self._woken.add(queue)
        self._service.wake(queue)
        if self._probe.away is not None:
            self._wake_at_store([pool for pool in list(self._pools) if queue in pool.queues])

    def _on_return(self) -> None:
        self._wake_at_store(list(self._pools))

    def _wake_at_store(self, pools: Sequence[ServicePool]) -> None:
        for pool in pools:
            for queue in pool.queues:  # the store does not know all of them
                self._stored.wake(queue)

    # --- settling

    def settle(self, batch: SettlementBatch) -> Sequence[Settled]:
        if any(isinstance(outcome, NOT_SETTLED) for _, outcome in batch.finished):
            raise ValueError("no broker settles an outcome of NOT_SETTLED")
        ours = [pair for pair in batch.finished if not is_stored(pair[0])]
        results = self._settle_stored(batch) if len(ours) < len(batch.finished) else {}
        if ours:
            try:
                settled = self._store_first.settle(SettlementBatch(batch.settler, batch.number, ours))
            except BaseException:
                self._part(batch.settler).keep(results)
                raise
            results.update(zip((delivery for delivery, _ in ours), settled, strict=True))
            self._held.difference_update(delivery for delivery, _ in ours if isinstance(results[delivery], bool))
        return [results[delivery] for delivery, _ in batch.finished]

    def _settle_stored(self, batch: SettlementBatch) -> Results:
        others = [pair for pair in batch.finished if is_stored(pair[0])]
        held = [delivery for delivery in batch.held if is_stored(delivery)]
        return self._part(batch.settler).settle(SettlementBatch(batch.settler, batch.number * PIECES, others, held))

    def _part(self, settler: str) -> SettlementPart:
        """The part of its batches for the jobs of the store."""
        return self._parts.setdefault(settler, SettlementPart(self._stored.settle))

    def close(self) -> None:
        self._probe.close()
        for pool in list(self._pools):
            pool.watch.close()


def is_stored(delivery: Delivery) -> bool:
    """Whether it was fetched from the store. Any other one is of the queue service."""
    return delivery.receipt is STORED


def _is_outage(error: BrokerError) -> bool:
    """A server that is full, or knows no lease of this process, serves all the same."""
    return isinstance(error, BrokerUnavailable) and not isinstance(error, BrokerFull | LeaseGone)


def _of_store(asks: Sequence[Ask]) -> list[Ask]:
    """Other programs push their bodies to the queue service: in the store, a list of that name is somebody else's."""
    return [(queue, most) for queue, most in asks if not bare_list_of(queue)]


def _marked(of_store: list[Delivery]) -> list[Delivery]:
    for delivery in of_store:
        delivery.receipt = STORED
    return of_store


def _rounds(asks: Sequence[Ask]) -> list[Sequence[Ask]]:
    """The asks of each round, which name all queues of the pool: both servers have each of them. In strict order, one
    queue is asked for in a round: a job of a lower queue on one server does not go before those of a higher queue on
    the other."""
    queues = [queue for queue, most in asks if most > 0]
    if len(queues) < 2 or len(set(queues)) < len(queues):
        return [asks]
    return [[(other, most if other == queue else 0) for other, most in asks] for queue in queues]
