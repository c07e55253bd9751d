"""Jobs on their way: pushed, fetched, settled, scheduled."""
