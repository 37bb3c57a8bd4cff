"""One after the other the samples that reveal most about what is unknown of the model (active
evaluation acquisition, equation 6).
"""

from nevis_stream.dynamic_evaluation.sequential import Sequential

POLICY = Sequential(
    lambda beliefs, answers, ctx: beliefs.information(answers),
    "information",
    "one after the other the samples that reveal most about the model's ability or latent variable",
)
