#![no_main]

qkv_fuzz::target!("tokenizer.json");
