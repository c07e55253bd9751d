"""The public API, re-exported by `goworkers_py`: App, Job, the client."""
