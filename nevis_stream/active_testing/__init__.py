"""Active testing: the risk of a trained model on a pool of unlabelled samples, from few labels.

    from nevis_stream import active_testing as at

    estimate = at.estimate(probabilities, label, budget=200)  # label takes samples, returns classes
    for estimate in at.estimates(probabilities, label, budget=200):
        print(estimate)

Sources: Kossen, Farquhar, Gal and Rainforth, Active Testing, ICML 2021, and Active Surrogate
Estimators, NeurIPS 2022 ("ASE paper" in this package); Farquhar, Gal and Rainforth, On Statistical
Bias in Active Learning, ICLR 2021; Angelopoulos et al., Prediction-Powered Inference, Science 2023;
Zrnic and Candès, Active Statistical Inference, ICML 2024.

Notation: a pool of n samples and c classes; a surrogate with e members, each of which gives a
probability to every class; M labels, of samples that were drawn one after the other without
replacement, sample i_m with probability q_m among those not yet drawn.
"""

from typing import TYPE_CHECKING

from nevis_stream.lazy import load_lazily

if TYPE_CHECKING:
    from nevis_stream.active_testing.estimation import estimate as estimate
    from nevis_stream.active_testing.estimation import estimates as estimates
    from nevis_stream.errors import AnsweringFailed as AnsweringFailed
    from nevis_stream.queries.oracle import Cost as Cost
    from nevis_stream.queries.oracle import Estimate as Estimate

_HOMES = {
    "AnsweringFailed": "errors",
    "Cost": "queries.oracle",
    "Estimate": "queries.oracle",
    "estimate": "active_testing.estimation",
    "estimates": "active_testing.estimation",
}
__all__ = list(_HOMES)  # noqa: PLE0604

if not TYPE_CHECKING:  # to a type checker, a name that is not above is a mistake
    __getattr__, __dir__ = load_lazily(__name__, _HOMES)
