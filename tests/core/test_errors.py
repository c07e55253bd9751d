from __future__ import annotations

import datetime
import inspect
import math
import re
from typing import Any

import pytest

from goworkers_py.core import errors
from goworkers_py.core.errors import DiscardJob, KillJob, RetryJob


def test_the_tree_in_the_docstring_is_the_tree_of_classes() -> None:
    drawn: dict[str, str] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"([│├└─ ]*)([A-Z]\w+)", line):
            path = [*path[: len(found[1]) // 4], found[2]]
            drawn[found[2]] = path[-2] if len(path) > 1 else "Exception"
    drawn.pop("Every", None)
    classes = {
        name: kind for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, Exception)
    }
    assert drawn == {name: kind.__bases__[0].__name__ for name, kind in classes.items()}


def test_a_refused_push_is_a_value_error_too() -> None:
    assert issubclass(errors.ArgumentError, ValueError)


@pytest.mark.parametrize(
    ("arguments", "delay", "at"),
    [
        ({"delay": 5}, 5, None),
        ({"delay": 0}, 0, None),
        ({"delay": datetime.timedelta(minutes=2)}, 120, None),
        ({"at": 1739522590.5}, None, 1739522590.5),
        ({"at": datetime.datetime(2025, 2, 14, 8, 43, 10, tzinfo=datetime.timezone.utc)}, None, 1739522590.0),
    ],
)
def test_retry_job_takes_a_delay_or_a_time(arguments: dict[str, Any], delay: float | None, at: float | None) -> None:
    error = RetryJob("not yet", **arguments)
    assert (error.delay, error.at, str(error)) == (delay, at, "not yet")


@pytest.mark.parametrize("arguments", [{}, {"delay": 5, "at": 6}])
def test_retry_job_needs_either_a_delay_or_a_time(arguments: dict[str, Any]) -> None:
    with pytest.raises(
        TypeError, match=re.escape("either delay (seconds from now) or at (epoch seconds or a datetime)")
    ):
        RetryJob(**arguments)


@pytest.mark.parametrize("name", ["delay", "at"])
@pytest.mark.parametrize(
    ("value", "refused"),
    [(math.nan, ValueError), (math.inf, ValueError), (-math.inf, ValueError), ("soon", TypeError), ([5], TypeError)],
)
def test_retry_job_refuses_a_time_that_no_sorted_set_holds(name: str, value: Any, refused: type[Exception]) -> None:
    with pytest.raises(refused, match=f"cannot wait for {value!r}" if refused is ValueError else "real number"):
        RetryJob(**{name: value})


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RetryJob(delay=1), "the job asked to be retried"),
        (DiscardJob(), "the job asked to be discarded"),
        (KillJob(), "the job asked to be killed"),
        (DiscardJob("too old"), "too old"),
        (KillJob("broken"), "broken"),
    ],
)
def test_a_job_control_without_a_message_has_a_default_one(error: errors.JobControl, told: str) -> None:
    assert str(error) == told
