#![no_main]

qkv_fuzz::target!("preprocessor_config.json");
