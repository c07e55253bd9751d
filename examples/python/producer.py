"""Enqueues the jobs of jobs.py. PYWORKERS_REDIS names the server; without it, redis://localhost:6379/0 is meant."""

from datetime import datetime, timedelta, timezone

from jobs import fetch, invoice, summarize

import goworkers_py as workers

print(invoice.enqueue(42, {"pdf": True}))  # each prints a jid
print(summarize.enqueue_in(timedelta(seconds=2), 7))
print(summarize.enqueue_at(datetime.now(timezone.utc) + timedelta(seconds=3), 8))
print(invoice.set(retry=0, tags=["no hurry"]).enqueue(43, {}))
print(fetch.enqueue_bulk([["https://example.org/1"], ["https://example.org/2"]]))

# A producer that does not have the job's code names its queue and class.
print(workers.enqueue("billing", "Billing::InvoiceJob", [44, {"pdf": False}]))
