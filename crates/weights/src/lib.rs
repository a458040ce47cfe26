//! Weights on disk: safetensors, pickle and GGUF in, safetensors and GGUF out.
