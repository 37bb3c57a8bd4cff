"""The commands of launch.evaluate."""
