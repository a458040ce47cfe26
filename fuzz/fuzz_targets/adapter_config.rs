#![no_main]

qkv_fuzz::target!("adapter_config.json");
