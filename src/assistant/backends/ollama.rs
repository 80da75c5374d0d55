//! (being written)
pub struct Ollama;
