"""Every test here runs against every broker."""

from __future__ import annotations

from contract_suite import *  # noqa: F403
from harness import VARIABLE, foreign


def pytest_report_header() -> str:
    """So that nobody takes a run against the brokers of this repository for one against another broker."""
    ours = "memory, dir, redis, cluster, disque, rabbitmq"
    return f"harnesses: {', '.join(foreign()) or f'{ours} ({VARIABLE} is not set)'}"
