"""Runs one trial after the other in this process."""

from nevis_stream.executor import Inline

NAME = "inline"
EXECUTOR = Inline
