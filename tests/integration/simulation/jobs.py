"""The jobs of the simulated fleet, as each of its processes declares them.

A class is a limit and a shape; all other traits of a job are options of its push, or where it is pushed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from goworkers_py import App, KillJob
from goworkers_py.core import machine
from goworkers_py.core.errors import ArgumentError, BrokerRefused
from goworkers_py.wire.message import current_message
from simulation.kernel import Killed, Process
from simulation.ledger import LIMITED, PUSHED, REFUSED, SHAPES, SKIPPED, UNKNOWN, Ledger, Promise, Run

AT_ONCE = {"crowd": 2, "keyed": 1, "wide": 3}  # of `keyed` and `wide` for each key
STRICT = "keyed"  # runs in the order of the pushes
RATE_PER_S, BURST = 0.5, 2
RETRY_AFTER_S = 5.0
STEP_S = 2.0
TICKS_S = 60


class Mishap(Exception):
    """A run fails, as it was told to."""


class Jobs:
    def __init__(
        self,
        app: App,
        process: Process,
        ledger: Ledger,
        server_time: Callable[[], float],
        newest_server_time: Callable[[], float],
    ) -> None:
        """`newest_server_time`: the most that the server's clock has shown."""
        self.app, self.process, self.ledger = app, process, ledger
        self.server_time, self.newest_server_time = server_time, newest_server_time

        def key_of(number: int, key: str) -> str:
            return key

        self.limits: dict[str, Any] = {
            "crowd": app.limit("crowd", concurrent=AT_ONCE["crowd"]),
            "keyed": app.limit("keyed", concurrent=AT_ONCE["keyed"], by=key_of),
            "wide": app.limit("wide", concurrent=AT_ONCE["wide"], by=key_of),
            "paced": app.limit("paced", rate=f"1/{1 / RATE_PER_S:.0f} seconds", burst=BURST),
        }
        self.by_class = {
            f"{limit}-{shape}": self._declare(limit, shape)
            for limit in ("any", *LIMITED)
            for shape in ("plain", *SHAPES)
        }
        self.callback = app.job("callback", queue="work", retry_in=RETRY_AFTER_S)(self._callback)
        self.by_class["gathered"] = self._declare_gathered()
        self._declare_tick()

    def _declare(self, limit: str, shape: str) -> Any:
        options: dict[str, Any] = {"queue": "work", "retry_in": RETRY_AFTER_S}
        if limit in self.limits:
            options["limits"] = [self.limits[limit]]
        if shape == "atomic":
            options["atomic"] = True

        def work(number: int, key: str) -> int:
            return self._work(number)

        def steps(number: int, key: str, *, cursor: Any = None) -> Iterator[int]:
            yield from self._steps(number, cursor)

        return self.app.job(f"{limit}-{shape}", **options)(steps if shape == "iterable" else work)

    def _declare_gathered(self) -> Any:
        declare: Any = self.app.job(
            "gathered", queue="work", retry_in=RETRY_AFTER_S, group_grace=20, group_max_delay=120, group_max_size=4
        )

        @declare
        def gathered(numbers: list[int], key: str) -> None:
            for number in numbers:
                self._work(number)

        @gathered.aggregate
        def gather(members: list[list[Any]]) -> list[Any]:
            return [[number for numbers, _ in members for number in numbers], members[0][1]]

        return gathered

    def _declare_tick(self) -> None:
        periodic: Any = self.app.periodic(every=TICKS_S, args=lambda slot: [int(slot.timestamp())], catch_up="latest")

        @periodic
        @self.app.job("tick", queue="work")
        def tick(slot: int) -> None:
            run = self._new_run(len(self.ledger.slots.get(slot, ())) + 1)
            self.ledger.slots.setdefault(slot, []).append(run)
            self._end(run, "ok")

    # --- runs

    def _new_run(self, attempt: int) -> Run:
        return Run(self.process, self.process.kernel.now, self.newest_server_time(), attempt)

    def _begin(self, number: int) -> tuple[Promise, Run]:
        promise = self.ledger.promises[number]
        run = self._new_run(len(promise.runs) + 1)
        promise.runs.append(run)
        message = current_message()
        if message is not None and "group" not in promise.traits:
            promise.jid = message.jid
        return promise, run

    def _end(self, run: Run, how: str) -> None:
        run.ended, run.ended_by_server, run.how = self.process.kernel.now, self.newest_server_time(), how

    def _work(self, number: int) -> int:
        promise, run = self._begin(number)
        try:
            machine.sleep(promise.first_run_s if run.attempt == 1 or _is_short_twin(promise, run) else promise.run_s)
            if "blocking" in promise.traits:
                # One with a time limit has time for it in all of its runs but the first.
                self.block(STRICT, promise.key, 5.0 if "timed" in promise.traits else 12.0, 30.0)
            for number_of_child in range(promise.kin):
                # The last one has a limit: its push may be refused when the others have been made.
                traits = {"wide"} if 0 < number_of_child == promise.kin - 1 else set()
                child = self.ledger.promise(
                    run_s=0.1, parent=promise, pushed=run.began, traits=frozenset(traits), key=promise.key
                )
                run.children.append(child)
                self.push(child)
            self._fail_as_told(promise, run)
        except Killed:
            raise
        except BaseException:
            self._end(run, "failed")
            raise
        self._end(run, "ok")
        return number

    def _steps(self, number: int, cursor: Any) -> Iterator[int]:
        promise, run = self._begin(number)
        try:
            for step in range(cursor or 0, promise.steps):
                machine.sleep(STEP_S)
                yield step + 1
            self._fail_as_told(promise, run)
        except Killed:
            raise
        except GeneratorExit:
            self._end(run, "broken off")
            raise
        except BaseException:
            self._end(run, "failed")
            raise
        self._end(run, "ok")

    def _fail_as_told(self, promise: Promise, run: Run) -> None:
        if promise.hopeless:
            raise KillJob("hopeless")
        failed = sum(run.how == "failed" for run in promise.runs)
        if failed < promise.failures and not _is_short_twin(promise, run):
            raise Mishap

    def _callback(self, batch: str) -> None:
        run = self._new_run(len(self.ledger.callbacks.get(batch, ())) + 1)
        self.ledger.callbacks.setdefault(batch, []).append(run)
        self._end(run, "ok")

    # --- pushes

    def job_of(self, promise: Promise) -> Any:
        return self.by_class[promise.job_class].set(**promise.options)

    def push(self, promise: Promise) -> None:
        """The caller learns of an outage as users do: by the exception."""
        promise.pushed, promise.answer = self.process.kernel.now, UNKNOWN
        promise.pusher_ahead_s = machine.time() - self.server_time()
        number: Any = [promise.number] if "group" in promise.traits else promise.number
        try:
            jid = self.job_of(promise).enqueue(number, promise.key)
        except (ArgumentError, BrokerRefused):
            promise.answer = REFUSED
            raise
        promise.jid, promise.answer = jid or "", PUSHED if jid else SKIPPED
        promise.answered, promise.answered_by_server = self.process.kernel.now, self.newest_server_time()

    def push_all(self, promises: list[Promise], within: str) -> None:
        """As a batch, or as a chain."""
        if within == "chain":
            self._push_chain(promises)
        else:
            self._push_batch(promises)

    def _push_batch(self, promises: list[Promise]) -> None:
        name = f"b{promises[0].number}"
        for promise in promises:
            promise.within = name
        try:
            with self.app.batch(name, on_complete=self.callback.s(name)):
                for promise in promises:
                    self.push(promise)
        except BaseException:
            for promise in promises:
                promise.given_up = True
            raise
        self.ledger.closed.add(name)

    def _push_chain(self, promises: list[Promise]) -> None:
        name = f"c{promises[0].number}"
        for promise in promises:
            promise.within, promise.pushed, promise.answer = name, self.process.kernel.now, UNKNOWN
        signatures = [self.job_of(promise).s(promise.number, promise.key) for promise in promises]
        try:
            self.app.chain(*signatures).enqueue()
        except (ArgumentError, BrokerRefused):
            for promise in promises:
                promise.answer = REFUSED
            raise
        for promise in promises:
            promise.answer = PUSHED

    def block(self, limit: str, key: str, seconds: float, timeout_s: float) -> None:
        """A block of code under a limit."""
        with self.limits[limit].acquire(0, key, timeout=timeout_s):
            run = self._new_run(1)
            self.ledger.blocks.append((limit, key, run))
            try:
                machine.sleep(seconds)
            finally:
                if self.process.alive:
                    self._end(run, "ok")


def _is_short_twin(promise: Promise, run: Run) -> bool:
    """See `strangers`."""
    return "twins" in promise.traits and run.attempt % 2 == 1
