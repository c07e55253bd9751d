"""HTTP as the pages need it: requests, answers, parameters. Knows nothing of jobs."""
