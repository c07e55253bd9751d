"""Dead jobs are looked at by a program, and pushed again with what was wrong in them corrected.

pyworkers run -r cleanup    # in one terminal
python cleanup.py           # in another one
"""

import time

import goworkers_py as workers


@workers.job(tags=["import"])
def load(country):
    if country == "UK":
        raise workers.KillJob("UK is not the code of a country: it is GB")
    print(f"loaded {country}", flush=True)


if __name__ == "__main__":
    inspector = workers.inspector
    for code in ("DE", "UK", "FR"):
        load.enqueue(code)

    wrong = workers.Filter(job_class="load", tag="import", argument="UK")
    while not (dead := inspector.page(inspector.DEAD, wrong).jobs):
        time.sleep(0.1)
    for kind in inspector.summary(inspector.DEAD):
        print(kind.count, kind.job_class, kind.error_message)

    for job in dead:
        inspector.enqueue_again(job, args=["GB"])
    for _, changed in inspector.delete(inspector.DEAD, wrong):
        print(changed.done, "deleted")
