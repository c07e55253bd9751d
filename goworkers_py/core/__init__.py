"""Shared by every room: errors, the clock, outcomes, deliveries, the version, facts about processes from /proc."""
