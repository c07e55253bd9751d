"""What the daemon shows over HTTP."""
