"""A learner without training steps: features of pictures, a kernel, and ridge regression.

Read in this order: `maps` (features of a picture), `patches` (a dictionary of patches), `embedding`
(all of it as one vector), `kernel`, `ridge`, `learner`.
"""
