"""The fields that a failed run writes into a job, in Sidekiq's form: class and text of the error, and its backtrace."""

from __future__ import annotations

import base64
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import simplejson

from goworkers_py.core.errors import WorkersError
from goworkers_py.wire.message import Message, jid_where_missing

MAX_ERROR_MESSAGE = 10_000
# A packed backtrace of more bytes is not unpacked: some kilobytes may become gigabytes.
LONGEST_BACKTRACE = 4_000_000
_OUR_FOLDER = str(Path(__file__).parents[1])
_CALLS_THE_JOB = str(Path(__file__).parents[1] / "links" / "perform.py")
_ASYNCIO = str(Path(os.__file__).parent / "asyncio")


def failure_fields(message: Message, error: BaseException, at: float) -> dict[str, Any]:
    """The fields in which Sidekiq keeps a job's last failure. They leave the retry count as it is."""
    return {
        "queue": message.queue,
        "error_message": error_text(error),
        "error_class": error_class(error),
        "retry_count": message.retry_count or 0,
        "failed_at" if message.retry_count is None else "retried_at": at,
        **jid_where_missing(message),
    }


def next_count(message: Message) -> int:
    """The retry count that the job has after this run fails."""
    # Sidekiq's "retry now" takes 1 off the count, so that -1 is a count too.
    return 0 if message.retry_count is None else message.retry_count + 1


def error_class(error: BaseException) -> str:
    """The name of the error's class with its module, even if the class overrides its own name."""
    kind = type(error)
    # Read by the descriptors of `type`: a metaclass may define other attributes of these names.
    module, name = (_TYPE[attribute].__get__(kind) for attribute in ("__module__", "__qualname__"))
    module, name = (_storable(text) if isinstance(text, str) else "?" for text in (module, name))
    return name if module == "builtins" else f"{module}.{name}"


def error_text(error: BaseException) -> str:
    """The error's text, cut to MAX_ERROR_MESSAGE and encodable as UTF-8. Never raises for a faulty `__str__`."""
    try:
        text = str(error)
    except BaseException as worse:
        text = f"(its message cannot be shown: str() raised {error_class(worse).rpartition('.')[2]})"
    return _storable(text)


def in_place_of(error: BaseException) -> WorkersError:
    """A plain error with the class, text and traceback of `error`, which raises when its attributes are read."""
    return WorkersError(f"{error_class(error)}: {error_text(error)}").with_traceback(_TRACEBACK(error))


def _storable(text: str) -> str:
    # By the methods of `str`: a subclass of `str` may override them.
    return str.__getitem__(text, slice(MAX_ERROR_MESSAGE)).encode("utf-8", "replace").decode("utf-8")


_TYPE = type.__dict__
_TRACEBACK: Callable[[BaseException], TracebackType | None] = BaseException.__dict__["__traceback__"].__get__


def own_traceback(error: BaseException) -> TracebackType | None:
    """The traceback from the job's first frame on. If the job has no frame, the last frame of this package alone."""
    links = list(_links(_TRACEBACK(error)))
    begin = next((n + 1 for n in reversed(range(len(links))) if _file_of(links[n]) == _CALLS_THE_JOB), 0)
    theirs = (link for link in links[begin:] if not _file_of(link).startswith((_OUR_FOLDER, _ASYNCIO)))
    return next(theirs, links[-1] if links else None)


def _links(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _file_of(link: TracebackType) -> str:
    return link.tb_frame.f_code.co_filename


def backtrace(error: BaseException, most: int) -> list[str]:
    """At most `most` lines in Ruby's form, innermost call first, without this package's frames around the job. As in
    Ruby, a negative number leaves out so many of the outermost calls."""
    links = list(_links(own_traceback(error)))
    theirs = [link for link in links if not _file_of(link).startswith(_OUR_FOLDER)] or links
    theirs = theirs[-most:]  # the innermost ones, or all but the outermost
    lines = [f"{_file_of(link)}:{link.tb_lineno}:in `{link.tb_frame.f_code.co_name}'" for link in reversed(theirs)]
    return [line.encode("utf-8", "replace").decode("utf-8") for line in lines]


def pack_backtrace(lines: list[str]) -> str:
    return base64.b64encode(zlib.compress(simplejson.dumps(lines).encode())).decode()


def unpack_backtrace(stored: Any) -> list[str]:
    """Reads the packed form of Sidekiq from 6.0.2 on and the plain list of old ones; [] for 6.0.1's Ruby Marshal, and
    for one that is longer than LONGEST_BACKTRACE."""
    if isinstance(stored, str):
        try:
            unpacking = zlib.decompressobj()
            unpacked = unpacking.decompress(base64.b64decode(stored), LONGEST_BACKTRACE)
            stored = simplejson.loads(unpacked) if unpacking.eof else None
        except (ValueError, zlib.error, RecursionError):
            return []
    return [str(line) for line in stored] if isinstance(stored, list) else []
