//! config_cli
