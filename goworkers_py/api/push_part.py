"""The part of a feature for pushes: what it adds to the jobs, and what it makes of the broker's answers.

An entry says by `push_marks` which options of a job are its business. The part of a feature is loaded for the first
push that has one of them, or that is inside of a block of the feature, see `core.push_blocks`. Other pushes know
nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from goworkers_py.api.request import PushRequest
    from goworkers_py.brokers.broker import Broker
    from goworkers_py.brokers.contracts.transport import PublishResult
    from goworkers_py.core.effect import Push, Tie

Publish = Callable[[Sequence["Push"]], Sequence["PublishResult"]]
# True, or the jid of the job that runs in its place; None where none does.
Answer = str | bool | None


class PushCall:
    """One call of a push, which may publish in several steps. The base class changes nothing."""

    def publish(self, pushes: Sequence[Push], publish: Publish) -> Sequence[PublishResult]:
        """Publishes the pushes by `publish`, or by several calls of it, and returns a result for each."""
        return publish(pushes)

    def hold(self, pushes: Sequence[Push]) -> Sequence[Push]:
        """Before `atomic` holds back pushes whose jid the caller has chosen."""
        return pushes

    def answer(self, push: Push, result: PublishResult) -> Answer:
        """The answer to the caller of a push that was not published as it is."""
        return True


NO_CALL = PushCall()


class JobTies:
    """How the jobs of one class with the same options are tied to something of a feature. It does not change."""

    slice: ClassVar[int | None] = None  # so many jobs are pushed in a step at most; None: as many as others
    has_goal: ClassVar[bool] = False  # `goal` is asked
    members: Mapping[str, Any] = MappingProxyType({})  # that all jobs have in the payload's field `pyworkers`
    needs: frozenset[str] = frozenset()  # that all jobs have
    shared: Tie | None = None  # that all jobs have; then `tie` is not asked

    def own_members(self, asked: PushRequest) -> Sequence[Mapping[str, Any]] | None:
        """For each job the members that it has of its own in the payload's field `pyworkers`."""
        return None

    def tie(self, fields: Mapping[str, Any], goes_elsewhere: bool) -> Tie | None:
        """The tie of the job with these fields of a payload. `goes_elsewhere`: another tie is its `goal`."""
        return None

    def goal(self, fields: Mapping[str, Any]) -> Tie | None:
        """The tie that gives a job with these fields another goal than its queue. Jobs that wait for a time have no
        such tie."""
        return None


class PushPart:
    """One for each client, whose threads share it."""

    def __init__(self, broker: Callable[[], Broker]) -> None:
        self._broker = broker

    def ties_of(self, asked: PushRequest) -> JobTies | None:
        """Raises ConfigError where the broker cannot do it. Asked once for many pushes."""
        return None

    def tie_in(self, fields: Mapping[str, Any]) -> Tie | None:
        """The tie of a job whose fields a client link has changed, and whose options had none of this feature."""
        return None

    def begin(self) -> PushCall:
        return NO_CALL
