"""RECAP, latent (Chang et al., 2023): training of the reconstruction that its score is measured by."""
