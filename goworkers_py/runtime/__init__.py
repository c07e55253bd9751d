"""The threads of a worker process, and what they share."""
