"""The links of the chain around a run, one file each."""
