"""The pushes of jobs with a strict limit: each takes its place in the slot, or its place in the slot's line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from goworkers_py.api.push_part import JobTies, PushPart
from goworkers_py.api.request import PushRequest
from goworkers_py.features.limits.contract import Limits
from goworkers_py.features.limits.limit import LimitSpec, SlotClaim, SlotTie
from goworkers_py.features.limits.limiting import limits_of, slot_for, strict_of
from goworkers_py.features.limits.payload import SLOTS, slot_claim_in, slots_field, slots_of
from goworkers_py.features.parts import Pushes


class SlotTies(JobTies):
    # A push with a place in a limit takes ten times as long as another one, and the broker does nothing else meanwhile.
    slice = 50

    def __init__(self, limit: LimitSpec) -> None:
        self._limit = limit

    def own_members(self, asked: PushRequest) -> Sequence[Mapping[str, Any]]:
        """By the arguments as they were given."""
        limit, job_class = self._limit, asked.job_class
        slots = [SlotTie(slot_for(limit, *given, job_class), limit.holds) for given in asked.arguments()]
        return [{SLOTS: slots_field([slot])} for slot in slots]

    def tie(self, fields: Mapping[str, Any], goes_elsewhere: bool) -> SlotClaim | None:
        slots = () if goes_elsewhere else slots_of(fields)
        return SlotClaim(slots[0].slot, fields["jid"]) if slots else None


class LimitPushes(PushPart):
    def ties_of(self, asked: PushRequest) -> SlotTies | None:
        limit = None if asked.code is None else strict_of(limits_of(asked.code))
        if limit is None:
            return None
        self._broker().require_part(Limits)
        return SlotTies(limit)


def _tie_of_stored(payload: bytes, goes_elsewhere: bool) -> SlotClaim | None:
    return None if goes_elsewhere else slot_claim_in(payload)


PUSHES = Pushes(LimitPushes, tie_of_stored=_tie_of_stored)
