"""The thread that asks Disque for more time for the jobs of this process, while they run or wait for a worker.

Disque delivers a job again when it was not acknowledged within its RETRY. WORKING begins that time anew. Its reply says
how long it is, because each producer chooses it: the first WORKING comes soon, the next ones after KEEP_AT of it. Jobs
that end at once cost nothing. In the second half of a job's TTL Disque refuses.
"""

from __future__ import annotations

import logging
import math

from goworkers_py.brokers.disque.consumer import Fetched
from goworkers_py.brokers.disque.nodes import Nodes, refusal_in
from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerError
from goworkers_py.core.strikes import Lock

log = logging.getLogger(__name__)

KEEP_AT = 0.8
FIRST_S = 2.0
SHORTEST_SLEEP_S = 0.05


class DisqueKeeper:
    def __init__(self, nodes: Nodes, retry_s: int) -> None:
        self._nodes = nodes
        self._first_s = min(FIRST_S, KEEP_AT * retry_s)
        # By the id of a job: when to ask for it next (monotonic). The fetchers add, the settlers remove, the keeper's
        # thread changes what is there; each is one step on the dict.
        self._next: dict[bytes, float] = {}
        self._unanswered = False  # the last WORKING had no reply; keeper's thread only
        self._stopped = machine.Event()
        self._lock = Lock()  # for `_thread`
        self._thread: machine.Thread | None = None

    def keep(self, fetched: list[Fetched]) -> None:
        soon = machine.monotonic() + self._first_s
        self._next.update((job.job_id, soon) for job in fetched)
        with self._lock:
            if self._thread is None and not self._stopped.is_set():
                self._thread = machine.Thread(target=self._run, name="disque keeper", daemon=True)
                self._thread.start()

    def forget(self, job_id: bytes) -> None:
        self._next.pop(job_id, None)

    def _run(self) -> None:
        while not self._stopped.wait(self._sleep_s()):
            try:
                self.run_once()
            except BrokerError as error:
                log.debug("jobs that run may be delivered again: %s", error)  # the fetchers tell of the outage
            except Exception:
                log.exception("the keeper of jobs that run failed, and goes on")

    def _sleep_s(self) -> float:
        """Until the next job needs time. A job that is added meanwhile does not need it within half of `_first_s`."""
        if self._unanswered:  # the jobs of before are all due: a node that is away is not asked again and again
            return self._first_s / 2
        rest_s = min(self._next.copy().values(), default=math.inf) - machine.monotonic()
        return max(SHORTEST_SLEEP_S, min(rest_s, self._first_s / 2))

    def run_once(self) -> None:
        now = machine.monotonic()
        due = [job_id for job_id, at in self._next.copy().items() if at <= now]
        if due:
            self._unanswered = True
            replies = self._nodes.exchange([("WORKING", job_id) for job_id in due])
            self._unanswered = False
            for job_id, reply in zip(due, replies, strict=True):
                self._heed(job_id, reply, now)

    def _heed(self, job_id: bytes, reply: object, now: float) -> None:
        if isinstance(reply, int) and reply > 0:
            if job_id in self._next:  # it has not ended meanwhile
                self._next[job_id] = now + KEEP_AT * reply
            return
        self.forget(job_id)
        if refusal_in(reply).startswith("TOOLATE"):
            log.warning(
                "Disque gives a job no more time, because half of its TTL has passed; it may be delivered again while "
                "it runs: raise ?ttl= in the address job=%s", job_id.decode()
            )  # fmt: skip

    def close(self) -> None:
        self._stopped.set()
        with self._lock:
            thread = self._thread
        if thread is not None and thread is not machine.current_thread():
            thread.join()
