"""The processes of the fleet: their leases, their entries, their counts."""
