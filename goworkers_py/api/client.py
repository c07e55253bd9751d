"""Pushes jobs, from any number of threads, in the form that every version of Sidekiq and go-workers reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from goworkers_py.api.job_writer import JobWriters, PreparedPush, check_push
from goworkers_py.api.request import PushRequest, require
from goworkers_py.api.worker_check import WorkerCheck
from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.brokers.contracts.transport import Published, PublishResult, places_pushed
from goworkers_py.config.enqueue_options import NO_OPTIONS, EnqueueOptions
from goworkers_py.config.moments import moment
from goworkers_py.config.options import Config
from goworkers_py.config.partitions import place_of_broker
from goworkers_py.core.clock import Clock
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import ArgumentError, BrokerRefused, BrokerUnreachable, DuplicateJob, PushError
from goworkers_py.core.push_blocks import HoldsPushes, blocks_now, holding
from goworkers_py.features import FEATURES
from goworkers_py.wire import payload
from goworkers_py.wire.message import current_message

if TYPE_CHECKING:
    from goworkers_py.api.client_links import ClientLink
    from goworkers_py.api.push_part import Answer, Publish, PushCall


class Client:
    """Pushes jobs. `broker` is called at the first push, so that a program may call `configure` after it has imported
    its jobs."""

    def __init__(
        self,
        broker: Callable[[], Broker],
        links: Sequence[ClientLink] = (),
        config: Config | None = None,
        clock: Clock | None = None,
        on_later: Callable[[float], None] = lambda at: None,
    ) -> None:
        """`on_later` is called with the time of each push of scheduled jobs."""
        config = config or Config()
        self._broker = broker
        self._links = links
        self.milliseconds = config.timestamps == "ms"  # so are times written; see `Timestamps`
        self._advice = place_of_broker(config)  # for an error
        self.home = config.home
        self.clock = clock or Clock()
        self._on_later = on_later
        self._workers = WorkerCheck(lambda: broker().recoverable.live_processes())
        self._writers = JobWriters(broker, self._workers, links)

    @property
    def broker(self) -> Broker:
        return self._broker()

    # --- pushing

    def push(
        self,
        queue: str,
        job_class: str,
        args: Sequence[Any],
        options: EnqueueOptions = NO_OPTIONS,
        kwargs: Mapping[str, Any] | None = None,
    ) -> str | None:
        """Returns the jid, or None when a client link stopped the push."""
        return self.push_all(PushRequest(queue, job_class, [args], options, kwargs))[0]

    def push_bulk(
        self, queue: str, job_class: str, rows: Iterable[Sequence[Any]], options: EnqueueOptions = NO_OPTIONS
    ) -> list[str | None]:
        return self.push_all(PushRequest(queue, job_class, list(rows), options))

    def push_all(self, asked: PushRequest) -> list[str | None]:
        """Pushes one job for each row, 1,000 in a round trip. All rows are checked before the first is pushed."""
        return self._push(self._prepared(asked if blocks_now() is None else self._in_blocks(asked)))

    def checked_push(self, asked: PushRequest) -> Callable[[], str | None]:
        """Checks a push, and returns the function that makes it: for several pushes of which none may be made if one of
        them is wrong."""
        prepared = self._prepared(self._in_blocks(asked))
        self._check_workers([asked.queue], prepared.writer.needs)
        return lambda: self._push(prepared)[0]

    def _prepared(self, asked: PushRequest) -> PreparedPush:
        options, rows = asked.options, asked.rows
        payload.check_rows(rows)
        if asked.kwargs:
            payload.check_kwargs(asked.kwargs)
        now = self.clock.wall()
        later = None
        if options.said:
            require("jid" not in options.said or len(rows) == 1, "one jid cannot name several jobs")
            later = _later(options, now)
        writer = self._writers.writer_of(asked, now if later is None else later)
        created = int(now * 1000) if self.milliseconds else float(now)
        times = {"created_at": created, "enqueued_at": created} if later is None else {"created_at": created}
        return PreparedPush(asked, writer, writer.own_members(asked) if writer.parts else None, times, later)

    def _push(self, prepared: PreparedPush) -> list[str | None]:
        asked = prepared.asked
        writer = prepared.writer
        # A client link may add a field or an option that any feature acts on, so all parts take part.
        parts = self._writers.parts_beside(writer) if self._links else writer.parts
        calls = [part.begin() for part in parts] if parts else ()
        if blocks_now() is not None and (held := holding(self.home)) is not None:
            return self._hold(held, prepared, calls)
        done: list[str | None] = []
        duplicate: DuplicateJob | None = None  # raised when the other slices are pushed
        for start in range(0, len(asked.rows), writer.slice):
            try:
                jids, pushes = prepared.slice(start)
            except Exception as error:  # a client link may raise any, also one of a push of its own
                vars(error)["pushed"] = _of_rows(len(asked.rows), done)
                raise
            try:
                answers = self._sent(pushes, writer.needs, calls)
            except DuplicateJob as error:
                duplicate = duplicate or error
                done += _pushed(jids, error)
            except Exception as error:
                vars(error)["pushed"] = _of_rows(len(asked.rows), [*done, *_pushed(jids, error)])
                raise
            else:
                done += jids if answers is None else _answered(jids, answers)
        if duplicate is not None:
            duplicate.pushed = done
            raise duplicate
        return done

    def _hold(self, held: HoldsPushes, prepared: PreparedPush, calls: Sequence[PushCall]) -> list[str | None]:
        """Inside of a block that holds pushes back: it gets all pushes of the call, or none if one raises."""
        asked, writer, kept = prepared.asked, prepared.writer, 0
        done: list[str | None] = []
        try:
            for start in range(0, len(asked.rows), writer.slice):
                jids, written = prepared.slice(start)
                self._check(written, writer.needs)
                pushes: Sequence[Push] = written
                for call in calls if "jid" in asked.options.said else ():
                    pushes = call.hold(pushes)
                held.add(self, pushes)
                kept += len(pushes)
                done += jids
        except Exception as error:
            held.take_back(self, kept)
            vars(error)["pushed"] = _of_rows(len(asked.rows), ())
            raise
        return done

    def _sent(
        self, pushes: Sequence[Push], needs: frozenset[str], calls: Sequence[PushCall]
    ) -> Sequence[Answer] | None:
        """The answers; None where each push has happened."""
        if needs:
            self._check(pushes, needs)
        try:
            return self._answers(pushes, calls) if pushes else None
        except BrokerUnreachable as error:
            raise error.with_advice(*self._advice) from error

    def _check(self, pushes: Sequence[Push], needs: frozenset[str]) -> None:
        """Whether live workers know what these jobs need."""
        try:
            self._check_workers(dict.fromkeys(push.queue for push in pushes), needs)
        except BrokerUnreachable as error:
            raise error.with_advice(*self._advice) from error

    def _answers(self, pushes: Sequence[Push], calls: Sequence[PushCall]) -> Sequence[Answer] | None:
        publish: Publish = self.publish
        for call in reversed(calls):
            publish = partial(call.publish, publish=publish)
        results = publish(pushes)
        return None if results.count(Published.PUSHED) == len(pushes) else _answers_of(calls, pushes, results)

    def publish(self, pushes: Sequence[Push]) -> Sequence[PublishResult]:
        """Publishes the pushes and returns the broker's result for each. A duplicate or a conflict is left to the
        caller."""
        published = self._broker().transport.publish(pushes)
        last_at = None
        for push in pushes:
            if push.at is not None and push.at != last_at:
                last_at = push.at
                self._on_later(last_at)
        return published

    def publish_held(self, pushes: Sequence[Push]) -> None:
        """Publishes pushes whose `enqueue` has returned already. So none of them raises: also with `raise`, a job whose
        lock another job holds is not pushed."""
        results = zip(pushes, self.publish(pushes), strict=True)
        refused = [push for push, result in results if result is Published.REFUSED]
        if refused and (
            others := [push for feature in FEATURES for push in feature.pushes().refused_late(refused, self._broker)]
        ):
            self.publish(others)

    def push_body(self, queue: str, body: bytes) -> None:
        """Pushes a bare body, which has no jid, to the level of a queue that is a list of other programs."""
        push = Push(queue, body)
        if blocks_now() is not None and (held := holding(self.home)) is not None:
            held.add(self, [push])
        else:
            self._sent([push], frozenset(), ())

    # --- jobs that something else pushes

    def draft(self, asked: PushRequest) -> tuple[str, Push] | None:
        """The jid and the push of one job, for a caller that publishes it; None when a client link stopped the push."""
        [jid], pushes = self._prepared(asked).slice(0)
        return None if jid is None else (jid, pushes[0])

    def of_others(self, asked: PushRequest) -> Push:
        """The push of a job that something else pushes, without `enqueued_at`: a link of a chain, or a callback of a
        batch. It is in no block, and takes no lock."""
        job_class, said = asked.job_class, asked.options.said
        require("at" not in said, f"{job_class}: a link of a chain or a callback of a batch takes no `at`")
        check_push(asked)
        for name in asked.options.counting if asked.is_later else ():
            raise ArgumentError(f"{job_class} is pushed later, and {name} would count from now: take it out of the job")
        prepared = self._prepared(asked)
        self._check_workers([asked.queue], prepared.writer.needs)
        _, pushes = prepared.slice(0)
        if not pushes:
            raise ArgumentError(f"a client link stopped the push of {job_class}")
        return Push(pushes[0].queue, payload.splice(pushes[0].payload, {}, drop=("enqueued_at",)))

    def _in_blocks(self, asked: PushRequest) -> PushRequest:
        """The push, with the features whose blocks give ties to it."""
        blocks, run = blocks_now() or {}, current_message()
        found = frozenset([name for name, block in blocks.items() if block.ties(self.home, run)])
        return asked._replace(blocks=found) if found else asked

    def _check_workers(self, queues: Iterable[str], needs: frozenset[str]) -> None:
        """Only leases say which features workers know."""
        if needs and Capability.LEASES in self._broker().capabilities:
            for queue in queues:
                self._workers.check(queue, needs)


def _later(options: EnqueueOptions, now: float) -> float | None:
    """When the jobs are due, if that is not now."""
    at = options.said.get("at")
    at = None if at is None else moment(at)
    return at if at is not None and at > now else None


def _answers_of(
    calls: Sequence[PushCall], pushes: Sequence[Push], results: Sequence[PublishResult]
) -> Sequence[Answer]:
    if Published.REFUSED in results:  # by a tie that no feature has given to this push
        refused = BrokerRefused("a push was refused")
        refused.places = places_pushed(results)
        raise refused
    answers: list[Answer] = [True] * len(pushes)
    duplicate: DuplicateJob | None = None  # raised when the answers to the others are known
    for call in calls:
        for at, (push, result) in enumerate(zip(pushes, results, strict=True)):
            if result is not Published.PUSHED and answers[at] is True:
                try:
                    answers[at] = call.answer(push, result)
                except DuplicateJob as error:
                    answers[at], duplicate = None, duplicate or error
    if duplicate is not None:
        duplicate.places = frozenset(at for at, answer in enumerate(answers) if answer is True)
        raise duplicate
    return answers


def _answered(jids: Sequence[str | None], answers: Sequence[Answer]) -> list[str | None]:
    """`jids` has None where a client link has stopped the push."""
    each = iter(answers)
    found = ((jid, True if jid is None else next(each)) for jid in jids)
    return [jid if answer is True else answer or None for jid, answer in found]


def _pushed(jids: Sequence[str | None], error: Exception) -> list[str | None]:
    """The jid of each job of a slice that was pushed before the error. `jids` is empty if it was not written."""
    places = error.places if isinstance(error, PushError) else frozenset()
    written = [at for at, jid in enumerate(jids) if jid is not None]
    pushed = {written[place] for place in places}
    return [jid if at in pushed else None for at, jid in enumerate(jids)]


def _of_rows(count: int, known: Sequence[str | None]) -> list[str | None]:
    """The jid of each of `count` rows; those behind the known ones were not pushed."""
    return [*known, *[None] * (count - len(known))]
