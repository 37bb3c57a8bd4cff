"""The commands of `python -m launch.data`, which print what they did."""
