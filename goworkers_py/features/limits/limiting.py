"""Which slots of limits a job needs: by its class, and the key that `by` makes from its arguments."""

from __future__ import annotations

import hashlib
import logging
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import simplejson

from goworkers_py.brokers.contracts.recoverable import FoundJob
from goworkers_py.config.options import Config
from goworkers_py.core.effect import Effect
from goworkers_py.core.errors import ArgumentError, ConfigError
from goworkers_py.core.job_state import StateWord
from goworkers_py.core.levels import levels_of
from goworkers_py.features.limits.configured import configured
from goworkers_py.features.limits.end import of_slots
from goworkers_py.features.limits.limit import LimitSettings, LimitSpec, Slot, SlotTie
from goworkers_py.features.limits.options import LimitConfig
from goworkers_py.features.limits.payload import slots_of
from goworkers_py.policy.consequences import JobMove
from goworkers_py.policy.registry import JobSpec, Registry, is_same_code
from goworkers_py.wire import payload
from goworkers_py.wire.message import Message
from goworkers_py.wire.stored_job import StoredJob

log = logging.getLogger("goworkers_py.job")

NAME = "limits"  # of the feature
# Hexadecimal digits of the digest of a key.
DIGITS = 24
_canonical = simplejson.JSONEncoder(sort_keys=True, separators=(",", ":"))


def slot_for(limit: LimitSpec, args: Sequence[Any], kwargs: Mapping[str, Any], called: str = "") -> Slot:
    """`called`: the class of the job, for the error when `by` raises one."""
    if limit.by is None:
        return Slot(limit.name)
    try:
        key = limit.by(*args, **kwargs)
    except Exception as error:
        given = ", ".join([*map(reprlib.repr, args), *(f"{name}={reprlib.repr(it)}" for name, it in kwargs.items())])
        raise ArgumentError(f"limit {limit.name}, by: fails for {called}({given}): {error!r}") from error
    key = list(key) if isinstance(key, tuple) else key
    try:
        payload.check_plain(key, "the key")
    except ArgumentError as error:
        raise ArgumentError(f"limit {limit.name}, by: {error}; return a text, a number or a list of them") from None
    return Slot(limit.name, hashlib.sha256(_canonical.encode(key).encode()).hexdigest()[:DIGITS])


def strict_of(limits: Iterable[LimitSpec]) -> LimitSpec | None:
    """The limit whose line the pushes of a class join: the first strict one by name."""
    return min((limit for limit in limits if limit.strict), key=lambda limit: limit.name, default=None)


def limits_of(spec: JobSpec) -> tuple[LimitSpec, ...]:
    return tuple([limit.spec for limit in spec.options.get("limits") or ()])


def declared_limits(registry: Registry) -> dict[str, LimitSpec]:
    """All that the program declares, those of blocks too."""
    limits: dict[str, LimitSpec] = registry.of_features.setdefault(NAME, {})
    return limits


def declare(registry: Registry, limit: LimitSpec) -> None:
    known = declared_limits(registry).setdefault(limit.name, limit)
    if known.settings != limit.settings or not _is_same_key(known.by, limit.by):
        raise ConfigError(f"limit {limit.name} is declared twice, with other values: give one of them another name")


def _is_same_key(by: Callable[..., Any] | None, other: Callable[..., Any] | None) -> bool:
    return by is other or (by is not None and other is not None and is_same_code(by, other))


def limits_of_classes(registry: Registry) -> list[LimitSpec]:
    """Of all classes, each once."""
    return list({limit.name: limit for spec in registry.specs() for limit in limits_of(spec)}.values())


def queues_of_limits(registry: Registry, names: Collection[str]) -> list[str]:
    """The queues of the classes that have one of these limits."""
    found: dict[str, None] = {}
    for spec in registry.specs():
        if any(limit.name in names for limit in limits_of(spec)):
            levels = levels_of(spec.queue) if "priority" in spec.options else ()
            retries = spec.options.get("retry_queue")
            found |= dict.fromkeys([spec.queue, *levels, *([retries] if retries else [])])
    return [*found]


class Limiting:
    """The limits of the jobs of this program."""

    def __init__(self, registry: Registry, config: Config) -> None:
        self._registry = registry
        self._config = config
        # By the names of limits. Classes are registered before jobs run. Two threads may each add the same entry.
        self._queues: dict[frozenset[str], list[str]] = {}

    def set_limits(self, limits: Sequence[LimitConfig]) -> None:
        """From any thread, in one assignment: `settings` follows these sections from now on."""
        self._config = replace(self._config, sections=tuple(limits))

    @property
    def sections(self) -> Sequence[LimitConfig]:
        """The sections [limit:NAME] that hold now."""
        return self._config.sections_of(LimitConfig)

    def of(self, message: Message) -> Sequence[LimitSpec]:
        spec = self._registry.spec_of(message)
        return limits_of(spec) if spec is not None else ()

    def ties(self, message: Message, limits: Iterable[LimitSpec]) -> list[SlotTie]:
        """The slots that the job needs, by name. A slot in its payload stands for that of the code: the key is that of
        the push."""
        known = {tie.slot.limit: tie for tie in slots_of(message.fields)}
        spec = self._registry.spec_of(message)
        needed = {limit.name: known.get(limit.name) or self._tie(message, limit, spec) for limit in limits}
        return sorted(needed.values())

    def _tie(self, message: Message, limit: LimitSpec, spec: JobSpec | None) -> SlotTie:
        try:
            args, kwargs = message.args, message.kwargs
            if limit.by is not None and spec is not None:
                args, kwargs = spec.arguments.load(args, kwargs)
            return SlotTie(slot_for(limit, args, kwargs), limit.holds)
        except Exception as error:  # whatever the user's code raises: the job must not escape its limit
            job_class, cause = message.job_class, error.__cause__ or error  # arguments are not logged
            log.warning(
                "limit %s: `by` fails for class %s, so the job counts under no key: %r", limit.name, job_class, cause
            )
            return SlotTie(Slot(limit.name), limit.holds)

    def recovered(self, found: FoundJob, error: BaseException | None) -> tuple[Effect, ...]:
        """The effects on the places that the job has by its class, and that its payload does not name."""
        if not found.begun or not self._registry.any_marks:
            return ()
        state: StateWord = "waiting" if error is None else "dead"
        queue, message = found.queue, StoredJob(found.payload, found.queue).message
        if message is None or not message.jid:
            return ()
        known = slots_of(message.fields)
        ties = [tie for tie in self.ties(message, self.of(message)) if tie not in known]
        queues = queue, *self.queues(tie.slot for tie in ties)
        return (*of_slots(ties, JobMove(message.jid, state, None, 0.0), queues),)

    def settings(self) -> list[LimitSettings]:
        return [configured(limit, self._config).settings for limit in limits_of_classes(self._registry)]

    def queues(self, slots: Iterable[Slot]) -> list[str]:
        """The queues of the classes that have one of these limits."""
        names = frozenset([slot.limit for slot in slots])
        known = self._queues.get(names)
        if known is None:
            known = self._queues[names] = queues_of_limits(self._registry, names)
        return known
