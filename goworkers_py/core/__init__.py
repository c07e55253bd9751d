"""What every room uses: errors, the clock, outcomes, deliveries, the version, what the system tells of a process."""
