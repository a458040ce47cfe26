#![no_main]

qkv_fuzz::target!("SentencePiece");
