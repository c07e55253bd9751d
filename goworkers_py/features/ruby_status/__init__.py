"""States of jobs, written where the gem sidekiq-status looks for them.

`payload`: a job as the gem sidekiq-status shows it: the hash `sidekiq:status:JID`, which the gem makes at the push.
"""
