"""The subcommands of `launch.label`."""
