//! x
use super::*;
