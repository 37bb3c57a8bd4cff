"""Policies, which choose the cells to ask. A module's name is that of its `POLICY`."""
