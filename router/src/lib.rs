//! Terminates HTTP and forwards each request to its Worker's shard.
