//! Text to ids and back: tokenizers loaded and trained, streams, chat templates.
