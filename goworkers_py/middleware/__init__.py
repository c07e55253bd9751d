"""What stands around a job: our own links, one file each, and the user's."""
