"""The server itself: access rules, checks, and one that is started along."""
