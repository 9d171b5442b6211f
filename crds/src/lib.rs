//! Tenon's custom resources.
