"""goworkers-py: runs the jobs that Rails, Go and Python push to one Redis in Sidekiq's format.

    import goworkers_py as workers

    @workers.job("Billing::InvoiceJob", queue="billing", retry=5)
    def invoice(order_id, options): ...

    invoice.enqueue(42, {"pdf": True})

`pyworkers run -r myapp.jobs` runs them.
"""

# First: while the imports below last, USR2 must not end a starting `pyworkers run`.
from goworkers_py.system import early_signals as _early_signals  # noqa: F401

# isort: split
from typing import TYPE_CHECKING

from goworkers_py.api.app import App
from goworkers_py.api.job import Job, Signature
from goworkers_py.config.enqueue_options import EnqueueOptions
from goworkers_py.core.default_app import remember as _remember
from goworkers_py.core.errors import (
    ArgumentError,
    ArgumentsDoNotFit,
    BatchEnded,
    BrokenOff,
    BrokerError,
    BrokerFull,
    BrokerRefused,
    BrokerUnavailable,
    BrokerUnreachable,
    ConfigError,
    DiscardJob,
    DuplicateJob,
    JobCancelled,
    JobControl,
    JobFailed,
    KillJob,
    LeaseGone,
    LeaseLost,
    LimitTimeout,
    NeedsNewerRelease,
    NoResult,
    NoSuchDatabase,
    PoisonPill,
    PushError,
    RetryJob,
    TimeLimitExceeded,
    TooManyHeld,
    UnknownJob,
    UnreadableBody,
    UnreadablePayload,
    WorkersError,
    WrongType,
)
from goworkers_py.core.version import __version__ as __version__
from goworkers_py.wire.message import Message, current_message

app = App()  # the default App: the functions below are its methods
_remember(app)

configure = app.configure
job = app.job
limit = app.limit
periodic = app.periodic
defaults = app.defaults
process = app.process
around = app.around
middleware = app.middleware
client_middleware = app.client_middleware
before_start = app.before_start
during_drain = app.during_drain
on_error = app.on_error
command = app.command
on_death = app.on_death
on_cancel = app.on_cancel
cancel = app.cancel
on_expire = app.on_expire
on_follow = app.on_follow
on_health = app.on_health
on_lead = app.on_lead
enqueue = app.enqueue
enqueue_in = app.enqueue_in
enqueue_at = app.enqueue_at
enqueue_bulk = app.enqueue_bulk
enqueue_with_options = app.enqueue_with_options
send = app.send
receive = app.receive
status = app.status
report = app.report
result = app.result
aresult = app.aresult
atomic = app.atomic
batch = app.batch
chain = app.chain
parallel = app.parallel
partition = app.partition
stats_server = app.stats_server
run = app.run
start = app.start
quit = app.quit  # noqa: A001  # go-workers' name

# The names that a push does not need are imported when they are first used.
if TYPE_CHECKING:
    from goworkers_py import testing
    from goworkers_py.admin.filter import Filter
    from goworkers_py.admin.inspector import Inspector
    from goworkers_py.admin.job_status import JobStatus
    from goworkers_py.features.batches.api import Batch
    from goworkers_py.features.batches.batch import BatchStatus
    from goworkers_py.features.calls.call import Target
    from goworkers_py.features.chains.chain import PREVIOUS, ChainStatus
    from goworkers_py.features.delays.api import DelayQueue
    from goworkers_py.features.delays.memory import MemoryPersistence
    from goworkers_py.features.delays.redis import RedisPersistence
    from goworkers_py.features.delays.sqlite import SQLitePersistence
    from goworkers_py.features.delays.task import DelayTask
    from goworkers_py.features.limits.api import Limit
    from goworkers_py.features.messages.receiver import Receiver
    from goworkers_py.features.messages.typed_message import TypedMessage
    from goworkers_py.features.standby.election import LeaderChange
    from goworkers_py.links.chain import Middleware
    from goworkers_py.runtime.alive.health_handlers import HealthEvent

    batches = app.batches
    chains = app.chains
    inspector = app.inspector
else:
    _LAZY = {
        "PREVIOUS": "features.chains.chain",
        "Batch": "features.batches.api",
        "BatchStatus": "features.batches.batch",
        "ChainStatus": "features.chains.chain",
        "DelayQueue": "features.delays.api",
        "DelayTask": "features.delays.task",
        "Filter": "admin.filter",
        "HealthEvent": "runtime.alive.health_handlers",
        "Inspector": "admin.inspector",
        "JobStatus": "admin.job_status",
        "LeaderChange": "features.standby.election",
        "Limit": "features.limits.api",
        "MemoryPersistence": "features.delays.memory",
        "Middleware": "links.chain",
        "Receiver": "features.messages.receiver",
        "RedisPersistence": "features.delays.redis",
        "SQLitePersistence": "features.delays.sqlite",
        "Target": "features.calls.call",
        "TypedMessage": "features.messages.typed_message",
    }
    _OF_APP = ("batches", "chains", "inspector")

    def __getattr__(name):  # type checkers must not see it: to them every name would exist
        from importlib import import_module

        if name == "testing":
            return import_module("goworkers_py.testing")
        if name in _OF_APP:
            found = getattr(app, name)
        elif name in _LAZY:
            found = getattr(import_module(f"goworkers_py.{_LAZY[name]}"), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found
        return found

    def __dir__():
        return sorted({*globals(), *__all__})


__all__ = [
    "PREVIOUS",
    "App",
    "ArgumentError",
    "ArgumentsDoNotFit",
    "Batch",
    "BatchEnded",
    "BatchStatus",
    "BrokenOff",
    "BrokerError",
    "BrokerFull",
    "BrokerRefused",
    "BrokerUnavailable",
    "BrokerUnreachable",
    "ChainStatus",
    "ConfigError",
    "DelayQueue",
    "DelayTask",
    "DiscardJob",
    "DuplicateJob",
    "EnqueueOptions",
    "Filter",
    "HealthEvent",
    "Inspector",
    "Job",
    "JobCancelled",
    "JobControl",
    "JobFailed",
    "JobStatus",
    "KillJob",
    "LeaderChange",
    "LeaseGone",
    "LeaseLost",
    "Limit",
    "LimitTimeout",
    "MemoryPersistence",
    "Message",
    "Middleware",
    "NeedsNewerRelease",
    "NoResult",
    "NoSuchDatabase",
    "PoisonPill",
    "PushError",
    "Receiver",
    "RedisPersistence",
    "RetryJob",
    "SQLitePersistence",
    "Signature",
    "Target",
    "TimeLimitExceeded",
    "TooManyHeld",
    "TypedMessage",
    "UnknownJob",
    "UnreadableBody",
    "UnreadablePayload",
    "WorkersError",
    "WrongType",
    "app",
    "aresult",
    "around",
    "atomic",
    "batch",
    "batches",
    "before_start",
    "cancel",
    "chain",
    "chains",
    "client_middleware",
    "command",
    "configure",
    "current_message",
    "defaults",
    "during_drain",
    "enqueue",
    "enqueue_at",
    "enqueue_bulk",
    "enqueue_in",
    "enqueue_with_options",
    "inspector",
    "job",
    "limit",
    "middleware",
    "on_cancel",
    "on_death",
    "on_error",
    "on_expire",
    "on_follow",
    "on_health",
    "on_lead",
    "parallel",
    "partition",
    "periodic",
    "process",
    "quit",
    "receive",
    "report",
    "result",
    "run",
    "send",
    "start",
    "stats_server",
    "status",
    "testing",
]
