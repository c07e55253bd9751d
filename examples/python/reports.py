"""A job whose result somebody waits for, and one that is cancelled.

pyworkers run -r reports    # in one terminal
python reports.py           # in another one
"""

import time

import goworkers_py as workers


@workers.job(retain=3600)
def report(year):
    message = workers.current_message()
    for month in range(1, 13):
        if message is not None:  # None where the function is called without a worker, as in a test
            message.progress(month, 12, f"month {month}")
        time.sleep(0.05)
    return {"year": year, "pages": 40}


@workers.job(track=True)
def watch_for_ever():
    while True:
        time.sleep(0.05)


@workers.on_cancel
def say(message):
    print(f"{message.job_class} was cancelled", flush=True)


if __name__ == "__main__":
    jid = report.enqueue(2026)
    print(workers.result(jid, timeout=30))
    for move in workers.status(jid).timeline:
        print(move.state, move.reason)

    endless = watch_for_ever.enqueue()
    while workers.status(endless).state != "running":
        time.sleep(0.1)
    print(workers.cancel(endless, timeout=30))
