//! Reconciles Workers and RuntimePools and serves the catalog.
