"""Models and samples are added to evaluation caches, and what was added is compared."""
