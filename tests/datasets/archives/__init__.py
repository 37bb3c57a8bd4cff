"""Small archives in the layouts of the 97 data sets, made from the published descriptions (not from
layouts.toml).
"""
