"""The options of jobs that features have. `make reference` writes this file out of the entries in `features`."""

from __future__ import annotations

from goworkers_py.features.atomic.job_options import AtomicOptions
from goworkers_py.features.expiry.job_options import ExpiryOptions
from goworkers_py.features.groups.job_options import GroupOfPush, GroupOptions
from goworkers_py.features.iteration.job_options import IterationOptions
from goworkers_py.features.limits.job_options import LimitOptions
from goworkers_py.features.ruby_status.job_options import RubyStatusOptions
from goworkers_py.features.tracking.job_options import TrackingOptions
from goworkers_py.features.unique.job_options import UniqueOptions


class FeatureOptions(TrackingOptions, UniqueOptions, GroupOptions, ExpiryOptions, IterationOptions, total=False):
    """Options that `@job`, `set()` and a push accept."""


class FeatureOptionsOfCode(LimitOptions, AtomicOptions, RubyStatusOptions, total=False):
    """Options that only `@job` accepts."""


class FeatureOptionsOfPush(GroupOfPush, total=False):
    """Options that only `set()` and a push accept."""
