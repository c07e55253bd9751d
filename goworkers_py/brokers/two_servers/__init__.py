"""A queue service with a store beside it: jobs are in the queues of both."""
