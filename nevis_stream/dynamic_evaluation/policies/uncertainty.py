"""One after the other the samples whose values are most uncertain (uncertainty sampling).

The uncertainty is the variance of the value, as in active evaluation acquisition, equation 5.
"""

from nevis_stream.dynamic_evaluation.sequential import Sequential

POLICY = Sequential(
    lambda beliefs, answers, ctx: beliefs.moments(answers)[1],
    "moments",
    "one after the other the samples whose values are most uncertain",
)
