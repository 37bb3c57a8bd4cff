"""FLOPs of compiled programs, and the meter that adds them up."""
