"""The part of periodic jobs in Redis: the names of the keys, ours and those of the gems whose schedules are read."""

from __future__ import annotations

from pathlib import Path

from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import RedisPart
from goworkers_py.brokers.redis.server.key_patterns import literally

LUA = Path(__file__).parent / "lua"


def schedules_key(keys: Keys) -> str:
    """Holds the names of all schedules."""
    return f"{keys.prefix}pyworkers:periodics"


def schedule_key(keys: Keys, source: str, name: str) -> str:
    """Holds a schedule. `source` has no colon."""
    return f"{keys.prefix}pyworkers:periodic:{source}:{name}"


def history_key(keys: Keys, source: str, name: str) -> str:
    """Holds the last firings of a schedule."""
    return f"{keys.prefix}pyworkers:periodic-history:{source}:{name}"


def source_key(keys: Keys, source: str) -> str:
    """Holds the newest generation of a source."""
    return f"{keys.prefix}pyworkers:periodic-source:{source}"


# --- of other programs


def cron_jobs_key(keys: Keys, namespace: str) -> str:
    """The gem sidekiq-cron's: the names of its jobs."""
    return f"{keys.prefix}cron_jobs:{namespace}"


def any_cron_jobs(keys: Keys) -> str:
    """A pattern for SCAN, for every key of this kind. Before its release 2 the gem had one, without a namespace."""
    return literally(cron_jobs_key(keys, "").removesuffix(":")) + "*"


def cron_job_key(keys: Keys, member: str) -> str:
    """One of its jobs, by a member of these sets."""
    return f"{keys.prefix}{member}"


def scheduler_jobs_key(keys: Keys) -> str:
    """The gem sidekiq-scheduler's: its jobs."""
    return f"{keys.prefix}schedules"


def scheduler_states_key(keys: Keys) -> str:
    """The same gem's: what people have set on its page."""
    return f"{keys.prefix}sidekiq-scheduler:states"


def _every_key(keys: Keys) -> dict[str, str]:
    return {
        "periodics": schedules_key(keys),
        "periodic": schedule_key(keys, "SOURCE", "NAME"),
        "periodic_history": history_key(keys, "SOURCE", "NAME"),
        "periodic_source": source_key(keys, "SOURCE"),
        "cron_jobs": cron_jobs_key(keys, "NAMESPACE"),
        "cron_job": cron_job_key(keys, "cron_job:NAMESPACE:NAME"),
        "schedules": scheduler_jobs_key(keys),
        "schedule_states": scheduler_states_key(keys),
    }


def part() -> RedisPart:
    return RedisPart(LUA, every_key=_every_key, types=lambda keys: {schedules_key(keys): "set"})
