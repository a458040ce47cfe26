#![no_main]

qkv_fuzz::target!("run: state.json");
