"""Jobs come into the process."""
