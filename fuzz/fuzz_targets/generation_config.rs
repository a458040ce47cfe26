#![no_main]

qkv_fuzz::target!("generation_config.json");
