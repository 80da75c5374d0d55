//! Whole-program tests: one binary, a module a subject.

mod python_client;
