"""The features, each in its folder. The engine folds over this list, and imports none of them.

A feature may use another one that its entry names in `uses`. Their order here is that of a job's life: a feature that
stands before another one is outside of it in a run, and is asked before it at a push and at an end.
"""

from __future__ import annotations

from collections.abc import Sequence

from goworkers_py.features.feature import Feature
from goworkers_py.features.limits.feature import Limits
from goworkers_py.features.tracking.feature import Tracking
from goworkers_py.features.unique.feature import Unique

FEATURES: Sequence[Feature] = (Tracking(), Unique(), Limits())
# The order in which people see them: pages, findings of the doctor, metrics.
BY_NAME: Sequence[Feature] = sorted(FEATURES, key=lambda feature: feature.name)
