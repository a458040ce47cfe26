#![no_main]

qkv_fuzz::target!("pickle, zip");
