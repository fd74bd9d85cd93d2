//! Tests: servers over HTTP, by subject.

mod answers;
mod eras;
mod modern;
mod oldest;
mod paths;
mod reuse;
mod sessions;
mod streams;
