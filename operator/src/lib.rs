//! Reconciles Workers and RuntimePools and serves the catalog.

pub mod catalog;
pub mod compile;
pub mod revision;
