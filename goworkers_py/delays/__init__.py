"""The delay queue: runs tasks after a delay, alone in any program or beside the daemon."""
