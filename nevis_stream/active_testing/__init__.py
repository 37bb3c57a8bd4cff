"""Active testing: the risk of a trained model on a pool of unlabelled samples, from few labels.

Sources: Kossen, Farquhar, Gal and Rainforth, Active Testing, ICML 2021, and Active Surrogate
Estimators, NeurIPS 2022 ("ASE paper" in this package); Farquhar, Gal and Rainforth, On Statistical
Bias in Active Learning, ICLR 2021; Angelopoulos et al., Prediction-Powered Inference, Science 2023;
Zrnic and Candès, Active Statistical Inference, ICML 2024.

Notation: a pool of n samples and c classes; a surrogate with e members, each of which gives a
probability to every class; M labels, of samples that were drawn one after the other without
replacement, sample i_m with probability q_m among those not yet drawn.
"""
