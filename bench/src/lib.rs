//! Load scenarios and comparisons.
