"""nevis_stream: learners meet vision tasks in the order in which research met them; error against cumulative FLOPs."""
