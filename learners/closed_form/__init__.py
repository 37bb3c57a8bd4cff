"""Two learners without a search: `closed_form` (image features, a kernel, ridge regression) and
`frontier`, which also reuses the predictors of repeated data sets and can add networks.

Read in this order: `maps` (features of an image), `patches` (dictionaries of visual words),
`embedding` (all features as one vector), `kernel`, `ridge`, `config`, `learner`; then `repeats`,
`averaging`, `frontier`.
"""
