"""Masks values that nobody should read on a page: those of arguments with a name like `password`."""

from __future__ import annotations

import operator
from collections.abc import Collection
from contextlib import suppress
from typing import Any

import simplejson

from goworkers_py.config.web_options import HIDDEN
from goworkers_py.wire import payload
from goworkers_py.wire.stored_job import StoredJob

MASK = "(hidden)"
DEEPEST = 100
_DOTTED = "\u0130"
_DOTLESS = "\u0131"


def folded(text: str) -> str:
    """Equal for texts that differ only in case. Hundreds of times as fast as a search that ignores the case.

    The four letters i of Turkish are one, as in such a search: `casefold` keeps them apart."""
    return text.lower() if text.isascii() else text.replace(_DOTTED, "i").casefold().replace(_DOTLESS, "i")


class Hiding:
    """A name is masked that contains one of `names`, in any case: `userPassword` too."""

    def __init__(self, names: Collection[str] = HIDDEN) -> None:
        self._names = [folded(name) for name in names]

    def hides(self, name: object) -> bool:
        return isinstance(name, str) and self._is_named_in(folded(name))

    def value(self, value: Any, depth: int = 0) -> Any:
        """The value with all that is to be hidden masked, however deep. The value itself where nothing is to be hidden:
        copies of all values of a job would take several times the memory of the job."""
        if not isinstance(value, dict | list):
            return value
        if depth > DEEPEST:
            return "(too deep)"
        if isinstance(value, list):
            shown = [self.value(member, depth + 1) for member in value]
            return value if all(map(operator.is_, shown, value)) else shown
        masked = {
            name: shown_member
            for name, member in value.items()
            if (shown_member := self._member(name, member, depth)) is not member
        }
        return {**value, **masked} if masked else value

    def _member(self, name: Any, value: Any, depth: int) -> Any:
        if self.hides(name):
            return value if value == MASK else MASK
        return self.value(value, depth + 1)

    def text(self, text: str) -> str:
        """A text of which nobody knows the form: JSON is masked; any other one with such a name is not shown."""
        if not self.hides(text) and "\\u" not in text:
            return text
        with suppress(ValueError, RecursionError):
            if isinstance(read := simplejson.loads(text), dict | list):
                masked = self.value(read)
                return text if masked is read else simplejson.dumps(masked, ignore_nan=True)
        return f"{MASK}: {len(text):,} characters with a name that is hidden" if self.hides(text) else text

    def may_hide(self, raw: bytes) -> bool:
        """False: nothing in these bytes of JSON is to be hidden."""
        return b"\\u" in raw or self._is_named_in(folded(raw.decode("utf-8", "replace")))

    def _is_named_in(self, text: str) -> bool:
        return any(name in text for name in self._names)

    def job_as_json(self, job: StoredJob) -> str:
        """The job as its list shows it, in one line of JSON. No number changes its digits where nothing is masked."""
        return self.masked_job(job).as_json

    def masked_job(self, job: StoredJob) -> StoredJob:
        """The job as it is shown; the job itself where nothing is to be hidden."""
        masked = self.masked(job)
        return job if masked is job.payload else StoredJob(masked, job.queue, job.at, job.line, job.whole)

    def masked(self, job: StoredJob) -> bytes:
        """The payload without what is to be hidden: the same bytes where there is nothing of that."""
        if not self.may_hide(job.payload):
            return job.payload
        if job.message is None or job.original is not None:
            # Text without structure: nobody can tell where the value ends.
            return self._without_text(job)
        fields = dict(job.message.fields)
        value = self.value(fields)
        if value is fields:
            return job.payload
        try:
            # With escapes, as half a surrogate pair has no bytes; an infinite number becomes null.
            return simplejson.dumps(value, ignore_nan=True).encode()
        except (ValueError, RecursionError):
            return self._without_text(job)

    def _without_text(self, job: StoredJob) -> bytes:
        return payload.write({"jid": job.jid, "class": "(unreadable)", "args": [self.in_place_of(job)]})

    def in_place_of(self, job: StoredJob) -> str:
        """Shown for an unreadable payload that contains a hidden name."""
        return f"{MASK}: {len(job.payload):,} unreadable bytes with a name that is hidden"
