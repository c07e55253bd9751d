"""What people read and edit on the server: queues, sets, processes; a module for each."""
