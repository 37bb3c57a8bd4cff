"""What launch.watch consists of: reading a run's files, what they say together, and how it is
shown.
"""
