"""Jobs of dead processes are taken over."""
