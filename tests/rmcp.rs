//! rmcp
