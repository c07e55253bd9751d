"""One process among processes: signals, parent and children, pidfile, systemd, log files."""
