"""The options of expiry, a part of the table in `config.job_options`."""

from __future__ import annotations

from typing import Annotated, TypedDict

from goworkers_py.config.job_option import Option
from goworkers_py.config.moments import Delay, Moment, after, is_delay, moment
from goworkers_py.config.option_values import is_moment

NEED = "expires"


class ExpiryOptions(TypedDict, total=False):
    expires_in: Annotated[
        Delay | None,
        Option(
            is_delay,
            "seconds above 0 or a timedelta",
            "seconds from the push, or from the time of a scheduled job, after which the job is not begun any more",
            write=None,
            write_at=lambda delay, pushed_at: {"expires_at": after(delay, pushed_at)},
            instead_of="expires_at",
            needs=NEED,
        ),
    ]
    expires_at: Annotated[
        Moment | None,
        Option(
            is_moment,
            "epoch seconds or a datetime",
            "the time after which the job is not begun any more; instead of `expires_in`",
            write=moment,
            instead_of="expires_in",
            needs=NEED,
        ),
    ]
