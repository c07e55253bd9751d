"""When a job expires, in its payload: `expires_at`, in epoch seconds. Sidekiq Pro writes `expiry`."""

from __future__ import annotations

EXPIRES_AT, EXPIRY = "expires_at", "expiry"
EXPIRIES = frozenset((EXPIRES_AT, EXPIRY))
