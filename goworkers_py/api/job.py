"""A job in the program that pushes it: the function that `@job` decorated."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from goworkers_py.api.job_writer import check_options
from goworkers_py.api.request import NO_MEMBERS, PushRequest
from goworkers_py.config.enqueue_options import NO_OPTIONS, EnqueueOptions
from goworkers_py.config.job_options import SetOptions, checked
from goworkers_py.config.moments import Delay, Moment, after
from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.values import dataclass
from goworkers_py.features.job_parts import FeatureJob
from goworkers_py.policy.registry import JobSpec
from goworkers_py.wire.needs import TYPED

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from goworkers_py.api.client import Client
    from goworkers_py.core.effect import Push
    from goworkers_py.core.home import Home
    from goworkers_py.policy.arguments import Both

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Signature:
    """A job and its arguments, as `job.s(1, key=2)` returns them."""

    job: Job[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]


class Job(FeatureJob, Generic[P, R]):
    """A function that can be pushed by its class: `invoice.enqueue(42)`. Calling it, `invoice(42)`, runs the function
    here and now, as in a test."""

    def __init__(
        self,
        clients: Mapping[str, Client],
        spec: JobSpec,
        options: EnqueueOptions = NO_OPTIONS,
        queue: str = "",
        partition: str | None = None,
    ) -> None:
        """`clients` has the client of each partition. The queue and the partition are those of its pushes; without
        them, those of the code."""
        self._clients = clients
        self._spec = spec
        self._options = options
        self._complete = options.over(spec.options)
        self._queue = queue or spec.queue
        self.partition = spec.options.get("partition") or "" if partition is None else partition
        self.__wrapped__ = spec.function
        self.__doc__ = spec.function.__doc__
        self.__name__ = getattr(spec.function, "__name__", spec.name)

    @property
    def name(self) -> str:
        """The job's class on the wire: `invoice.name == "Billing::InvoiceJob"`."""
        return self._spec.name

    @property
    def client(self) -> Client:
        """The client of its partition."""
        return self._clients[self.partition]

    @property
    def target(self) -> tuple[JobSpec, str, EnqueueOptions]:
        """The parts of its pushes, for who pushes it by itself: the code, the queue and the options."""
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
        job: Job[P, R] = Job(self._clients, self._spec, self._options.replaced(**changed), queue, partition)
        check_options(options, job._complete.said, self._spec.name)
        return job

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> str | None:
        """`invoice.enqueue(42, pdf=True)` pushes the job and returns its jid, or None when a client link stopped the
        push."""
        return self._clients[self.partition].push_all(self._request([args], kwargs, self._complete))[0]

    def enqueue_in(self, delay: Delay, /, *args: P.args, **kwargs: P.kwargs) -> str | None:
        """`invoice.enqueue_in(timedelta(hours=1), 42)`: the job runs after a delay, in seconds or as a timedelta."""
        return self.enqueue_at(after(delay, self.client.clock.at_latest()), *args, **kwargs)

    def enqueue_at(self, at: Moment, /, *args: P.args, **kwargs: P.kwargs) -> str | None:
        """`invoice.enqueue_at(4102444800, 42)`: the job runs at a time, in epoch seconds or as a datetime.

        A datetime without a time zone is in the local time of the machine that pushes, as in all of Python:
        `datetime.now()` is right, `datetime.utcnow()` is hours off."""
        return self._clients[self.partition].push_all(self._request([args], kwargs, self._complete.replaced(at=at)))[0]

    def enqueue_bulk(self, rows: Iterable[Sequence[Any]]) -> list[str | None]:
        """`invoice.enqueue_bulk([[42], [43]])` pushes one job for each row of positional arguments, 1,000 in a round
        trip."""
        return self._clients[self.partition].push_all(self._request(list(rows), {}, self._complete))

    def _request(
        self, rows: Sequence[Sequence[Any]], kwargs: Mapping[str, Any], options: EnqueueOptions
    ) -> PushRequest:
        """The arguments are written as JSON. `kwargs` are those of a single row."""
        spec = self._spec
        arguments = spec.arguments
        for args in rows:
            arguments.check(args, kwargs)
        if arguments.plain:
            return PushRequest(self._queue, spec.name, rows, options, kwargs, spec.needs, spec)
        given = [(list(args), kwargs) for args in rows]
        written = [arguments.dump(args, kwargs) for args in rows]
        # A job whose arguments are JSON as they were given runs in an older release as it does in this one.
        needs = spec.needs | {TYPED} if written != given else spec.needs
        dumped = [args for args, _ in written]
        return PushRequest(
            self._queue, spec.name, dumped, options, written[0][1] if written else {}, needs, spec, given
        )

    def s(self, /, *args: P.args, **kwargs: P.kwargs) -> Signature:
        """`report.s(7)`: the job with these arguments, for a batch or a chain to push."""
        return Signature(self, args, kwargs)

    def write(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        members: Mapping[str, Any] = NO_MEMBERS,
        needs: Collection[str] = (),
        is_later: bool = False,
        finish: Callable[[Any], Any] | None = None,
    ) -> Push:
        """The job, without `enqueued_at`, for something else that pushes it. `members` and `needs` are those of the
        payload's field `pyworkers`. `finish` makes JSON of an argument in which there is a Placeholder."""
        asked = self._request([args], kwargs, self._complete)
        if finish is not None:
            kwargs = {name: finish(value) for name, value in (asked.kwargs or {}).items()}
            asked = asked._replace(rows=[[finish(arg) for arg in asked.rows[0]]], kwargs=kwargs)
        needs = asked.needs.union(needs)
        return self.client.of_others(
            asked._replace(members=members, needs=needs, code=None, by_others=True, is_later=is_later)
        )

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
