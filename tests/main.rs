//! The daemon, driven from outside.
