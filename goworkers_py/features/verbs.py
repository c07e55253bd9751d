"""The verbs of the inspector that features have. `make reference` writes this file out of the entries in `features`."""

from __future__ import annotations

from goworkers_py.features.batches.admin import BatchVerbs
from goworkers_py.features.calls.admin import CallVerbs
from goworkers_py.features.cancelling.admin import CancelVerbs
from goworkers_py.features.chains.admin import ChainVerbs
from goworkers_py.features.configuration.admin import ConfigurationVerbs
from goworkers_py.features.groups.admin import GroupVerbs
from goworkers_py.features.limits.admin import LimitVerbs
from goworkers_py.features.periodic.admin import PeriodicVerbs
from goworkers_py.features.standby.admin import ElectionVerbs
from goworkers_py.features.tracking.admin import RecordVerbs
from goworkers_py.features.unique.admin import LockVerbs


class FeatureVerbs(
    RecordVerbs,
    LockVerbs,
    LimitVerbs,
    ChainVerbs,
    BatchVerbs,
    GroupVerbs,
    CancelVerbs,
    CallVerbs,
    ConfigurationVerbs,
    PeriodicVerbs,
    ElectionVerbs,
):
    pass
