//! upstreams
