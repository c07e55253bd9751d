"""Enqueues the jobs of jobs.py. PYWORKERS_BROKER names the server; the default is redis://localhost:6379/0."""

from datetime import datetime, timedelta, timezone

from jobs import fetch, invoice, summarize

import goworkers_py as workers

print(invoice.enqueue(42, {"pdf": True}))  # each prints a jid
print(summarize.enqueue_in(timedelta(seconds=2), 7))
print(summarize.enqueue_at(datetime.now(timezone.utc) + timedelta(seconds=3), 8))
print(invoice.set(retry=0, tags=["no hurry"]).enqueue(43, {}))
print(fetch.enqueue_bulk([["https://example.org/1"], ["https://example.org/2"]]))

# A producer without the job's code gives queue, class and arguments.
print(workers.enqueue("billing", "Billing::InvoiceJob", [44, {"pdf": False}]))
