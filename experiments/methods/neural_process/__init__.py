"""An attentive latent neural process over the samples of a benchmark."""
