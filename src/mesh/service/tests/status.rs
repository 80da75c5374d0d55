//! What the status says, and the warnings in it.
