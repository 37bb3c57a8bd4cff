"""The commands of `python -m launch.data`; each prints what a person reads."""
