"""Jobs that wait for a time come into their queues."""
