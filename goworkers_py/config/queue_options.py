"""The options of queues and of pools, which share threads among queues."""

from __future__ import annotations

from goworkers_py.config.option_rows import option
from goworkers_py.config.parsers import auto_or, one_of, order, shares, text, whole, words, yes_or_no
from goworkers_py.core.values import dataclass
from goworkers_py.features.queue_options import FeatureQueueOptions

SERIAL = "serial"  # the mode of a queue


@dataclass(frozen=True, slots=True)
class QueueConfig(FeatureQueueOptions):
    """A section [queue:NAME]."""

    name: str
    concurrency: int = option(
        10, whole(1, 10_000), "worker threads of this queue, in each of `processes`", central=True
    )
    prefetch: int | None = option(
        None, auto_or(whole(0, 10_000)), "jobs fetched beyond the free workers: auto (about 20 ms of work), or a number"
    )
    handler: str = option("", text, "module:function that runs every job of this queue, whatever its class")
    middleware: tuple[str, ...] = option((), words, "links for this queue, after the global ones: module:Class, ...")
    partition: str = option("", text, "partition to which this queue belongs; empty: none")
    priorities: bool | None = option(
        None,
        auto_or(yes_or_no),
        "also work NAME@high before this queue, and NAME@low after it, for jobs with a priority: yes, no or auto, "
        "which works them where the code of a job of this queue names a priority",
    )
    mode: str = option(
        "threads",
        one_of("threads", SERIAL),
        "threads, or serial: one thread fetches, runs and settles the jobs of this queue in order",
    )
    # No option: the list or queue of the broker in which other programs leave bare bodies for this queue, see
    # `core.levels`; empty: there is none.
    bare_list: str = ""


@dataclass(frozen=True, slots=True)
class PoolConfig:
    """A section [pool:NAME]: queues that share one pool of threads. A queue without such a section is a pool of one."""

    name: str
    queues: tuple[str, ...] = option(
        (), words, "queues that share the threads of this pool, the most important first", central=True
    )
    order: str = option(
        "strict",
        order,
        "strict: while a queue has jobs, none of a later queue begins; not with `weights`",
        central=True,
    )
    weights: tuple[int, ...] = option(
        (),
        shares,
        "instead of `order`: how many jobs of each queue begin, by shares, such as 6, 3, 1",
        central=True,
    )
    partition: str = option("", text, "partition to which these queues belong; empty: none")
    concurrency: int = option(10, whole(1, 10_000), "worker threads of this pool, in each of `processes`", central=True)
    prefetch: int | None = option(
        None, auto_or(whole(0, 10_000)), "jobs fetched beyond the free workers: auto (about 20 ms of work), or a number"
    )
    serial: bool = False  # no option: a queue in serial mode is a pool of one thread

    @classmethod
    def of_one(cls, queue: QueueConfig) -> PoolConfig:
        serial = queue.mode == SERIAL
        concurrency = 1 if serial else queue.concurrency
        return cls(queue.name, (queue.name,), concurrency=concurrency, prefetch=queue.prefetch, serial=serial)

    def __str__(self) -> str:
        """For people: `mail`, or `pool web: critical, low in strict order`."""
        if self.queues == (self.name,):
            return self.name
        if self.weights:
            weighted = (f"{queue} {weight}" for queue, weight in zip(self.queues, self.weights, strict=True))
            return f"pool {self.name}: {', '.join(weighted)} by weight"
        return f"pool {self.name}: {', '.join(self.queues)} in strict order"
