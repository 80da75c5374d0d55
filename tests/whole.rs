//! Whole-program tests: one binary, a module a subject.
