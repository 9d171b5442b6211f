//! Tests across processes, on a real Kubernetes control plane.
