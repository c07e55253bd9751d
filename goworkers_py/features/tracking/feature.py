"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    from goworkers_py.web.site.table import FeaturePages


class Tracking(Feature):
    """A record of a job tells its state, its progress and its result."""

    name = "tracking"

    def pages(self) -> FeaturePages:
        from goworkers_py.features.tracking.views import PAGES

        return PAGES
