"""The names of the keys of Sidekiq's Metrics page: a part of `keys`."""

from __future__ import annotations

import datetime


class SidekiqMetricKeys:
    prefix: str

    def minute_of_seven(self, at: datetime.datetime) -> str:
        """Executions of each class in a minute, for Sidekiq 7. `at` is in UTC here and below."""
        return f"{self.prefix}j|{at:%Y%m%d}|{at.hour}:{at.minute}"

    def histogram_of_seven(self, job_class: str, at: datetime.datetime) -> str:
        return f"{self.prefix}{job_class}-{at:%d-%H}:{at.minute}"

    def minute_of_eight(self, at: datetime.datetime) -> str:
        return f"{self.prefix}j|{at:%y%m%d}|{at.hour}:{at:%M}"

    def ten_minutes_of_eight(self, at: datetime.datetime) -> str:
        return self.minute_of_eight(at)[:-1]

    def histogram_of_eight(self, job_class: str, at: datetime.datetime) -> str:
        return f"{self.prefix}h|{job_class}-{at.day}-{at.hour}:{at.minute}"

    def marks(self, day: datetime.date) -> str:
        """Marks of deploys of a day, by the minute."""
        return f"{self.prefix}{day:%Y%m%d}-marks"
