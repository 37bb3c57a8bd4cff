"""Rules, which say among which samples the next round collects. A module's name is that of its
`RULE`.
"""
