"""The policy `reinforcement` without the rewards of single samples, to see what these are worth."""

from nevis_stream.dynamic_evaluation.policies.reinforcement import Reinforcement

POLICY = Reinforcement(False, "as reinforcement, but rewarded at the end of an episode alone")
