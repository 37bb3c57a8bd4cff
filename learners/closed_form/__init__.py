"""A learner without training steps: image features, a kernel, and ridge regression.

Read in this order: `maps` (features of an image), `patches` (a dictionary of patches), `embedding`
(all features as one vector), `kernel`, `ridge`, `learner`.
"""
