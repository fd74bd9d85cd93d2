//! Development only: what the tests of several crates share.
