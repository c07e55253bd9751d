"""Jobs run in the worker threads."""
