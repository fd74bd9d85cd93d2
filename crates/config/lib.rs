//! Configuration files in, a checked model or all problems out.
