"""Publishes jobs that move at the homes of their limits, from the outboxes in which they are, see `moves`.

Several processes relay at once, and each may be killed between the two steps, so a push has an id, which its shard
knows for `MovingPush.id_life_s`.

Each shard has an outbox for each other one. It names the shard to which its jobs move, so all relays publish them
there, also those that know other shards: if that shard is not the home of the limit any more, the job moves again when
it begins there. The id of a push begins with the placement key of the limit: where the outbox names a shard that is
none any more, a relay finds the home by the shards that it knows.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import ClassVar

from goworkers_py.brokers.contracts.store import Posted
from goworkers_py.brokers.shards.moving_records import MovingRecords
from goworkers_py.brokers.shards.shard import Shard
from goworkers_py.brokers.shards.shard_list import ShardList
from goworkers_py.core import machine
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import BrokerError, BrokerRefused
from goworkers_py.core.strikes import Lock

log = logging.getLogger(__name__)

# The outbox of jobs that move to shard b is named "shard b". The address of another broker, which names an outbox of
# other pushes, has no blank.
OUTBOX = "shard "
# How often to look for jobs that other processes have left there.
LOOK_EVERY_S = 5.0
AT_ONCE = 200
# A look at an outbox ends when so many of its jobs cannot move now.
MOST_STAYING = 2_000


class MovingPush(Push):
    """Each job that moves has an id of its own. They are many, and an id is needed only until the push has left the
    outbox: that takes longer than a moment only if its shard fails then."""

    __slots__ = ()
    id_life_s: ClassVar[int] = 3_600


def outbox_to(goal: Shard) -> str:
    return OUTBOX + goal.name


def id_of_move(key: str) -> str:
    return f"{key}#{machine.token_hex(8)}"


class MoveRelay:
    """Has a thread of its own from the first `wake` on, which any thread may call. Each beat of a process does: another
    one that was killed may have left jobs in an outbox, and the code of this one may have no limits."""

    def __init__(self, shards: ShardList) -> None:
        self._shards = shards
        self._told, self._closed = machine.Event(), False
        self._starting = Lock()
        self._thread: machine.Thread | None = None  # under the lock, as the next one
        self._pid = 0
        self._records = MovingRecords()
        # The ids of the moves that were refused in this look at all outboxes, and in the one before; the thread's.
        self._refused: set[str] = set()
        self._told_refused: set[str] = set()

    def wake(self) -> None:
        self._told.set()
        if self._pid != os.getpid():
            self._start()

    def _start(self) -> None:
        if self._pid:  # in a forked child: another thread of the parent may have held the lock
            self._starting, self._told = Lock(), machine.Event()
            self._told.set()
        with self._starting:
            if self._pid != os.getpid() and not self._closed:
                self._thread = machine.Thread(target=self._run, name="shards:moves", daemon=True)
                self._thread.start()
                self._pid = os.getpid()

    def _run(self) -> None:
        while not self._closed:
            self._told.wait(LOOK_EVERY_S)
            self._told.clear()
            self.run_once()

    def run_once(self) -> None:
        self._told_refused, self._refused = self._refused, set()
        for shard in self._shards.all:
            for outbox in self._outboxes(shard):
                try:
                    self._empty(shard, outbox)
                except BrokerError as error:  # the jobs are in the outbox; the shard tells its outage itself
                    log.debug("the jobs of outbox %s of shard %s wait: %s", outbox, shard.name, error)

    def _outboxes(self, shard: Shard) -> list[str]:
        if shard.away or self._closed:
            return []
        try:
            found = shard.ask(lambda broker: broker.admin.outboxes())
        except BrokerError as error:
            log.debug("the jobs that move from shard %s wait: %s", shard.name, error)
            return []
        return [one.name for one in found if one.name.startswith(OUTBOX)]

    def _empty(self, shard: Shard, outbox: str) -> None:
        goal = next((one for one in self._shards.all if outbox_to(one) == outbox), None)
        staying = 0
        while staying < MOST_STAYING and not (self._closed or (goal is not None and goal.away)):
            posted = shard.ask(lambda broker, passed=staying: broker.store.posted(outbox, AT_ONCE, passed))  # type: ignore[misc]
            if not posted:
                return
            by_goal: dict[Shard, list[Posted]] = {}
            for one in posted:
                by_goal.setdefault(goal or self._shards.home(one.push.id.rpartition("#")[0]), []).append(one)
            for to, several in by_goal.items():
                taken = self._publish(shard, to, several)
                if taken:
                    shard.ask(lambda broker, taken=taken: broker.store.sent(outbox, taken))  # type: ignore[misc]
                staying += len(several) - len(taken)

    def _publish(self, source: Shard, home: Shard, posted: Sequence[Posted]) -> Sequence[Posted]:
        """Returns those that are there now. Where one is refused, each is published by itself."""
        # Of the push, an outbox tells more than this: what its payload names. The job has all that already.
        pushes = [MovingPush(one.push.queue, one.push.payload, id=one.push.id) for one in posted]
        try:
            moving = self._records.copy(pushes, source, home)
            home.ask(lambda broker: broker.transport.publish(pushes))
            self._records.drop(moving, source)
            return posted
        except BrokerRefused as error:
            if len(posted) > 1:
                return [one for each in posted for one in self._publish(source, home, [each])]
            self._refused.add(pushes[0].id)
            if pushes[0].id not in self._told_refused:
                log.error("a job of queue %s cannot move to shard %s: %s", pushes[0].queue, home.name, error)
        except BrokerError as error:  # an id of the push makes it safe to try again
            log.debug("jobs wait until they can move to shard %s: %s", home.name, error)
        return []

    def close(self) -> None:
        self._closed = True
        self._told.set()
        thread = self._thread
        if thread is not None and self._pid == os.getpid() and thread is not machine.current_thread():
            thread.join(1.0)
