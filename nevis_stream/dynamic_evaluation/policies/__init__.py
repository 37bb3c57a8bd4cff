"""Policies: what to ask next. A module here that offers a `POLICY` is one, under its own name."""
