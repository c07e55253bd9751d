"""bin/bench: goworkers-py and its peers measured on one machine, in one run, each on the same Redis in turn."""
