"""Locks of the gem sidekiq-unique-jobs, which are freed and taken here.

`payload`: the lock of the gem sidekiq-unique-jobs in the payload of a job that Ruby pushed: `lock`, `lock_digest` and
others.
"""
