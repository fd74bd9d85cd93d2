//! Tests: servers over HTTP, by subject.

mod answers;
mod asking;
mod eras;
mod listening;
mod modern;
mod oldest;
mod paths;
mod reuse;
mod sessions;
mod streams;
mod wishes;
