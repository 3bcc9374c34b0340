"""What serving strangers takes: limits, a line to wait in, the doors that are open."""
