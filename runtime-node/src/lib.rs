//! Runs Workers in V8 isolates on pinned threads.

pub mod engine;
