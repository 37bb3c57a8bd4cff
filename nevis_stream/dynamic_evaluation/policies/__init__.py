"""Policies, which choose the cells to ask; the table is `methods.POLICIES`."""
