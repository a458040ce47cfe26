#![no_main]

qkv_fuzz::target!("config.json, gemma3");
