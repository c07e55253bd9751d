"""The programs."""

from __future__ import annotations

from program_fixtures import (  # noqa: F401
    browser,
    gems,
    go,
    go_binaries,
    gw2_master,
    has_sidekiq,
    python,
    pyworkers,
    ruby,
)
