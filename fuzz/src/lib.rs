//! Targets of `cargo fuzz`: each feeds one parser of the table that the tier of tests feeds, too.
//!
//! libFuzzer changes bytes and keeps what reaches new code. Its corpus begins with the parser's own seeds; what it finds is
//! kept in `fuzz/artifacts`. Memory and time are bounded by libFuzzer's flags, not by a budget of ours.

#[path = "../../crates/qkv/tests/fuzz/parsers.rs"]
mod parsers;

pub use libfuzzer_sys;
use std::path::Path;
use std::sync::OnceLock;

struct Fed {
    parser: parsers::Parser,
    place: tempfile::TempDir,
}

static FED: OnceLock<Fed> = OnceLock::new();

/// Chooses the parser, and writes its seeds where libFuzzer reads its corpus: the first argument that is a directory.
pub fn begin(name: &str) {
    let parser = parsers::parsers().into_iter().find(|p| p.name == name);
    let parser = parser.unwrap_or_else(|| panic!("no parser is called `{name}`"));
    let corpus = std::env::args().skip(1).find(|a| !a.starts_with('-') && Path::new(a).is_dir());
    for (i, seed) in parser.seeds.iter().enumerate() {
        let Some(corpus) = &corpus else { continue };
        std::fs::write(Path::new(corpus).join(format!("seed-{i}")), seed).expect("a seed is written");
    }
    FED.get_or_init(|| Fed { parser, place: parsers::place() });
}

/// One case.
pub fn feed(bytes: &[u8]) {
    let Some(Fed { parser, place }) = FED.get() else { return };
    parser.write(place.path(), bytes);
    (parser.read)(place.path());
}

/// A target of this parser.
#[macro_export]
macro_rules! target {
    ($name:literal) => {
        $crate::libfuzzer_sys::fuzz_target!(init: $crate::begin($name), |bytes: &[u8]| $crate::feed(bytes));
    };
}
