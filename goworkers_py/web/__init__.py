"""The HTTP port: probes, Prometheus, go-workers' figures."""
