"""Studies of learners on streams: errors against FLOPs, what each part contributes, and whether
differences are real."""
