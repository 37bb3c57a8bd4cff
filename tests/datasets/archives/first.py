"""Not here yet."""

MAKERS = {}
