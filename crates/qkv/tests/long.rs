//! `see` of a long text costs what it shows: the maps, and neither the scores of every place nor a second copy of anything large.
//! The most memory that the program ever held is read from Linux while it runs.
#![cfg(target_os = "linux")]

use burn::tensor::Device;
use qkv_model::families::{Sizes, gpt2};
use qkv_model::{Pretrained, presets, spec::Spec};
use qkv_weights::Dtype;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const TOKENS: usize = 500;

/// A network with random weights, on disk.
fn network(spec: &Spec) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    let it = Pretrained::new(&gpt2::SHEET, spec, None, 1, &Device::flex()).expect("a network");
    it.save(dir.path(), Dtype::F32, u64::MAX).expect("written");
    dir
}

/// The most memory that `qkv see` held, in bytes, and how long it took.
fn peak(model: &Path, vocabulary: usize, more: &[&str]) -> (u64, Duration) {
    let ids: Vec<String> = (0..TOKENS).map(|i| (3 + i * 7919 % (vocabulary - 3)).to_string()).collect();
    let began = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_qkv"));
    command.arg("see").arg(model).args(["--ids", &ids.join(",")]).args(more).stdout(Stdio::null());
    let mut child = command.spawn().expect("qkv");
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    loop {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let held = text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        most = most.max(held.unwrap_or(0u64));
        if let Some(done) = child.try_wait().expect("a child") {
            assert!(done.success(), "{more:?}");
            return (most * 1024, began.elapsed());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// 4 layers of 12 heads over 500 tokens: 48 MB of maps; the scores of 50,257 words at 500 places would be 100 MB more.
#[test]
fn the_maps_of_a_long_text_cost_little_more_than_themselves() {
    let (vocabulary, width) = (50_257, 48);
    let spec = (gpt2::SHEET.sizes)(&Sizes::of_tokens(vocabulary, width, 4, 12, 512)).expect("a spec");
    let model = network(&spec);
    let maps = (4 * 12 * TOKENS * TOKENS * 4) as u64;
    let weights = (vocabulary * width * 4) as u64;
    let (held, _) = peak(model.path(), vocabulary, &[]);
    // The program itself, the file while it is read, the network, the maps, and what one layer computes with.
    let bound = 50_000_000 + 2 * weights + maps + 5 * maps / 4;
    assert!(held < bound, "{} MB were held, {} MB are the bound", held / 1_000_000, bound / 1_000_000);
}

/// A network of GPT-2 small's size: below a gigabyte, with all that a page shows.
#[test]
#[ignore = "slow: half a gigabyte of random weights"]
fn a_long_text_in_gpt2_small_stays_below_a_gigabyte() {
    let spec = presets::find("gpt2").expect("a preset").spec();
    let model = network(&spec);
    let page = tempfile::tempdir().expect("a folder");
    let file = page.path().join("x.html").display().to_string();
    for more in [&[][..], &["--window", "0..64", "-o", &file]] {
        let (held, took) = peak(model.path(), 50_257, more);
        assert!(held < 1_000_000_000, "{more:?}: {} MB were held", held / 1_000_000);
        // A busy machine may take its time, but not for ever.
        assert!(took < Duration::from_secs(60), "{more:?}: {took:?}");
    }
}
