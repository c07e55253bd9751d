"""Jobs leave the process."""
