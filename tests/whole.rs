//! Whole-program tests: one binary, a module a subject.

mod backends;
mod support;
