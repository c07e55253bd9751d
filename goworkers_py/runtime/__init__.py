"""The threads of a worker process, and the objects that they share."""
