"""What users import, re-exported by `goworkers_py` itself: App, Job, the client."""
