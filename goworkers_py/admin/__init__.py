"""Reads and changes queues, jobs and processes: the inspector, its filters, the doctor."""
