"""Subcommands of research, which the commands of `launch` find by entry points: a module for each
command, and what its subcommands do.
"""
