"""What people read and change: queues, jobs, processes, the doctor."""
