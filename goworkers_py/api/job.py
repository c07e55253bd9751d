"""A job in the program that pushes it: the function that `@job` decorated."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from goworkers_py.api.job_writer import NO_TIES, Ties, WrittenJob
from goworkers_py.config.enqueue_options import NO_OPTIONS, EnqueueOptions
from goworkers_py.config.job_options import SetOptions, checked
from goworkers_py.config.moments import Delay, Moment, after
from goworkers_py.core.errors import ArgumentError
from goworkers_py.features.limits.limit import SlotTie
from goworkers_py.features.unique.uniqueness import check_lock_options, uniqueness_of
from goworkers_py.policy.registry import JobSpec
from goworkers_py.wire.chain import CHAIN, as_texts
from goworkers_py.wire.needs import TYPED

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from goworkers_py.api.client import Client
    from goworkers_py.core.clock import Clock
    from goworkers_py.core.held_pushes import Home
    from goworkers_py.policy.arguments import Both

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")  # what a function that aggregates returns


@dataclass(frozen=True, slots=True)
class Signature:
    """A job and its arguments, as `job.s(1, key=2)` returns them."""

    job: Job[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]


class Job(Generic[P, R]):
    """A function that can be pushed by its class: `invoice.enqueue(42)`. Calling it, `invoice(42)`, runs the function
    here and now, as in a test."""

    def __init__(
        self,
        clients: Callable[[str], Client],
        clock: Clock,
        spec: JobSpec,
        options: EnqueueOptions = NO_OPTIONS,
        queue: str = "",
        partition: str | None = None,
    ) -> None:
        """`clients` gives the client of a partition. The queue and the partition are those of its pushes; without them,
        those of the code."""
        self._clients = clients
        self._clock = clock
        self._spec = spec
        self._options = options
        self._complete = options.over(spec.options)
        self._queue = queue or spec.queue
        self.partition = spec.options.get("partition") or "" if partition is None else partition
        self._unique = uniqueness_of(self._complete.said, spec.name)
        self.__wrapped__ = spec.function
        self.__doc__ = spec.function.__doc__
        self.__name__ = getattr(spec.function, "__name__", spec.name)

    @property
    def name(self) -> str:
        """The job's class on the wire: `invoice.name == "Billing::InvoiceJob"`."""
        return self._spec.name

    @property
    def client(self) -> Client:
        """That of its partition."""
        return self._clients(self.partition)

    @property
    def target(self) -> tuple[JobSpec, str, EnqueueOptions]:
        """The parts of its pushes, for periodic jobs: the code, the queue and the options."""
        return self._spec, self._queue, self._complete

    # `self` and a time are positional only: a job may have parameters of these names.

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self._spec.function(*args, **kwargs)
        return result

    def set(self, **options: Unpack[SetOptions]) -> Job[P, R]:
        """Returns the same job with other options for its pushes: `invoice.set(queue="slow", retry=1).enqueue(42)`.

        These options override the decorator's. None removes an option of an earlier `set`. docs/jobs.md
        lists all options.
        """
        checked(options, SetOptions)
        changed: dict[str, Any] = {**options}
        queue = changed.pop("queue", self._queue) or self._spec.queue
        partition = changed.pop("partition", self.partition)
        job: Job[P, R] = Job(
            self._clients, self._clock, self._spec, self._options.replaced(**changed), queue, partition
        )
        check_lock_options(options, job._complete.said, self._spec.name)
        return job

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> str | None:
        """`invoice.enqueue(42, pdf=True)` pushes the job and returns its jid, or None when a client link stopped the
        push."""
        return self._push([args], kwargs, self._complete)[0]

    def enqueue_in(self, delay: Delay, /, *args: P.args, **kwargs: P.kwargs) -> str | None:
        """`invoice.enqueue_in(timedelta(hours=1), 42)`: the job runs after a delay, in seconds or as a timedelta."""
        return self.enqueue_at(after(delay, self._clock.at_latest()), *args, **kwargs)

    def enqueue_at(self, at: Moment, /, *args: P.args, **kwargs: P.kwargs) -> str | None:
        """`invoice.enqueue_at(4102444800, 42)`: the job runs at a time, in epoch seconds or as a datetime.

        A datetime without a time zone is in the local time of the machine that pushes, as in all of Python:
        `datetime.now()` is right, `datetime.utcnow()` is hours off."""
        return self._push([args], kwargs, self._complete.replaced(at=at))[0]

    def enqueue_bulk(self, rows: Iterable[Sequence[Any]]) -> list[str | None]:
        """`invoice.enqueue_bulk([[42], [43]])` pushes one job for each row of positional arguments, 1,000 in a round
        trip."""
        return self._push(list(rows), {}, self._complete)

    def aggregate(self, function: Callable[[list[list[Any]]], A], /) -> Callable[[list[list[Any]]], A]:
        """Decorator: `@invoice.aggregate` below the job. The function gets the arguments of the members of a group, a
        list of lists, those that joined first first. It returns the arguments of the one job that runs instead.

        It runs as a job of this class: when it raises, it is retried, and the members are safe. See docs/groups.md.
        """
        from goworkers_py.api.aggregating import aggregating

        single = self.set(group=None, unique_for=False)
        run = aggregating(function, self._spec.name, self._spec.arguments, lambda args: single.enqueue_bulk([args]))
        self._spec.aggregated_by(JobSpec(self._spec.name, run, self._queue, self._spec.options))
        return function

    def _push(
        self, rows: Sequence[Sequence[Any]], kwargs: Mapping[str, Any], options: EnqueueOptions
    ) -> list[str | None]:
        """`kwargs` are those of a single row."""
        ties = Ties(self._locks(rows, kwargs), self._slots(rows, kwargs))
        rows, kwargs, needs = self._dumped(rows, kwargs)
        return self.client.push_bulk(self._queue, self._spec.name, rows, options, needs, kwargs, ties)

    def _slots(self, rows: Sequence[Sequence[Any]], kwargs: Mapping[str, Any]) -> Sequence[SlotTie]:
        """The slots of a strict limit, from the arguments as they were given."""
        if "limits" not in self._spec.marks:
            return ()
        from goworkers_py.features.limits.limiting import limits_of, slot_for, strict_of

        strict = strict_of(limits_of(self._spec))
        if strict is None:
            return ()
        return [SlotTie(slot_for(strict, args, kwargs, self._spec.name), strict.holds) for args in rows]

    def s(self, /, *args: P.args, **kwargs: P.kwargs) -> Signature:
        """`report.s(7)`: the job with these arguments, for a batch or a chain to push."""
        return Signature(self, args, kwargs)

    def write(self, args: Sequence[Any], kwargs: Mapping[str, Any], ties: Ties = NO_TIES) -> WrittenJob:
        """The payload of a job that something else pushes, without `enqueued_at`."""
        [args], kwargs, needs = self._dumped([args], kwargs)
        if CHAIN in ties.members:
            args, kwargs = [as_texts(one) for one in args], {name: as_texts(one) for name, one in kwargs.items()}
        return self.client.written(self._queue, self._spec.name, args, self._complete, needs, kwargs, ties)

    def _dumped(
        self, rows: Sequence[Sequence[Any]], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Sequence[Any]], Mapping[str, Any], Collection[str]]:
        """The arguments as JSON, and what the worker must know."""
        arguments, needs = self._spec.arguments, self._spec.needs
        for args in rows:
            arguments.check(args, kwargs)
        if not arguments.plain:
            given = [(list(args), kwargs) for args in rows]
            written = [arguments.dump(args, kwargs) for args in rows]
            # A job whose arguments are JSON as they were given runs in an older release as it does in this one.
            if written != given:
                needs = needs | {TYPED}
            rows, kwargs = [args for args, _ in written], written[0][1] if written else {}
        return rows, kwargs, needs

    def _locks(self, rows: Sequence[Sequence[Any]], kwargs: Mapping[str, Any]) -> list[str] | None:
        """The names of the locks of unique jobs whose key `unique_by` makes from the arguments as they were given."""
        unique = self._unique
        return None if unique is None or unique.by is None else [unique.name(args, kwargs) for args in rows]

    def check_home(self, home: Home, of: str) -> None:
        """Raises ArgumentError if its pushes go to another broker than that of a batch or a chain."""
        own = self.client.home
        if own != home:
            advice = f'workers.partition("{self.partition}")' if self.partition else "workers"
            raise ArgumentError(
                f"{of} on {home.name} cannot push {self.name}, whose broker is {own.name}: open it by {advice}, or "
                "give the job another partition by set(partition=...)"
            )

    def on_wire(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Both:
        """The JSON that a push with these arguments sends, for `testing.assert_enqueued`: `job.on_wire([date], {})`."""
        return self._spec.arguments.dump(list(args), kwargs)

    def __repr__(self) -> str:
        return f"<Job {self.name} on queue {self._queue}>"
