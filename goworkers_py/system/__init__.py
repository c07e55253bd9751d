"""The process as the operating system sees it: signals, parent and children, pidfile, systemd, log files."""
