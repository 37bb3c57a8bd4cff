"""Tasks in the order in which a learner meets them."""
