//! safetensors: faults 1 to 5 and 8 of the list.

use std::time::Instant;

use qkv_weights::{Checkpoint, Dtype, Finiteness, Format, Tensor, save_safetensors};
use serde_json::json;

use crate::{open, refused};

const NAME: &str = "model.safetensors";

/// A file of this table and that many bytes.
fn file(table: &str, bytes: usize) -> Vec<u8> {
    let mut out = (table.len() as u64).to_le_bytes().to_vec();
    out.extend(table.as_bytes());
    out.extend((0..bytes).map(|i| i as u8));
    out
}

fn row(dtype: &str, shape: &[u64], from: u64, to: u64) -> String {
    json!({ "dtype": dtype, "shape": shape, "data_offsets": [from, to] }).to_string()
}

fn table(rows: &[(&str, String)]) -> String {
    let rows: Vec<String> = rows.iter().map(|(name, row)| format!("\"{name}\":{row}")).collect();
    format!("{{{}}}", rows.join(","))
}

fn good() -> Vec<u8> {
    let rows = [("b", row("F32", &[2, 2], 8, 24)), ("a", row("BF16", &[4], 0, 8)), ("e", row("F32", &[0, 7], 8, 8))];
    file(&table(&rows), 24)
}

#[test]
fn a_file_by_hand() {
    let checkpoint = open(NAME, &good()).unwrap();
    assert_eq!(checkpoint.format(), Format::SafeTensors);
    let names: Vec<&str> = checkpoint.entries().iter().map(|e| e.name.as_str()).collect();
    assert_eq!(names, ["a", "e", "b"]); // as they lie
    assert_eq!(*checkpoint.read_raw("a").unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);
    let want = [0x0b0a0908u32, 0x0f0e0d0c, 0x13121110, 0x17161514].map(f32::from_bits);
    assert_eq!(checkpoint.read_f32("b").unwrap(), want);
    assert!(checkpoint.read_f32("e").unwrap().is_empty());
    assert_eq!((checkpoint.get("b").unwrap().bytes, checkpoint.get("b").unwrap().dtype), (16, Dtype::F32));
    let error = checkpoint.read_f32("bb").unwrap_err();
    assert_eq!((error.what.as_str(), error.hint.as_str()), ("has no tensor `bb`", "the nearest name there is `b`"));
}

#[test]
fn metadata_is_read() {
    let text = format!("{{\"__metadata__\":{{\"format\":\"pt\",\"a\":\"b\"}},\"w\":{}}}", row("U8", &[1], 0, 1));
    let checkpoint = open(NAME, &file(&text, 1)).unwrap();
    assert_eq!(checkpoint.metadata().text("format").unwrap(), "pt");
    assert_eq!(checkpoint.metadata().iter().len(), 2);
}

#[test]
fn fault_01_cut_anywhere_is_an_error() {
    let good = good();
    for length in 0..good.len() {
        let what = refused(NAME, &good[..length]);
        if length >= good.len() - 16 {
            let held = length - (good.len() - 24);
            assert_eq!(what, format!("tensor `b` needs bytes 8 to 24, but the file holds only {held}"));
        }
    }
}

#[test]
fn fault_02_a_false_length_of_the_table_is_found_at_once() {
    let begin = Instant::now();
    for (length, what) in [
        (u64::MAX, "claims a table of 18446744073709551615 bytes"),
        (1 << 30, "more than 100000000 is not allowed"),
        (1000, "claims a table of 1000 bytes, but only"),
        (0, "its table"),
    ] {
        let mut bytes = good();
        bytes[..8].copy_from_slice(&length.to_le_bytes());
        assert!(refused(NAME, &bytes).contains(what));
    }
    assert!(begin.elapsed().as_millis() < 500);
}

#[test]
fn fault_03_fault_04_fault_05_every_bad_table_is_refused() {
    let two = |a: String, b: String| table(&[("a", a), ("b", b)]);
    for (table, bytes, what) in [
        (
            table(&[("w", row("F32", &[1 << 32, 1 << 32], 0, 4))]),
            4,
            "tensor `w` of shape [4294967296, 4294967296] overflows",
        ),
        (table(&[("w", row("F32", &[1 << 62], 0, 4))]), 4, "overflows"),
        (table(&[("w", row("F32", &[2], 0, 4))]), 4, "takes 8 bytes, but is given 0 to 4"),
        (table(&[("w", row("F32", &[1], 4, 0))]), 4, "but is given 4 to 0"),
        (table(&[("w", row("F32", &[1], 0, 4))]), 5, "holds 1 bytes behind its last tensor"),
        (table(&[("w", row("F32", &[1], 4, 8))]), 8, "leaves a hole before it: it begins at 4, not 0"),
        (two(row("U8", &[4], 0, 4), row("U8", &[4], 3, 7)), 7, "tensor `b` lies over the one before it"),
        (two(row("U8", &[4], 0, 4), row("U8", &[4], 0, 4)), 4, "tensor `b` lies over"),
        (two(row("U8", &[4], 0, 4), row("U8", &[4], 6, 10)), 10, "tensor `b` leaves a hole"),
        (table(&[("a", row("U8", &[1], 0, 1)), ("a", row("U8", &[1], 1, 2))]), 2, "tensor `a` comes twice"),
        (table(&[("w", row("F8_E4M3", &[1], 0, 1))]), 1, "type F8_E4M3, which cannot be read"),
        (table(&[("w", row("Q8_0", &[32], 0, 34))]), 34, "type Q8_0, which cannot be read"),
        ("{\"__metadata__\":{},\"__metadata__\":{}}".into(), 0, "`__metadata__` comes twice"),
        ("{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}".into(), 0, "metadata key `a` comes twice"),
        ("{\"__metadata__\":{\"a\":1}}".into(), 0, "its table: invalid type"),
        ("{\"w\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]}}".into(), 1, "its table: invalid value"),
        ("{\"w\":{\"dtype\":\"U8\",\"shape\":[1]}}".into(), 1, "missing field `data_offsets`"),
        (format!("{{\"w\":{}", "[".repeat(100_000)), 0, "its table"),
    ] {
        let found = refused(NAME, &file(&table, bytes));
        assert!(found.contains(what), "{found}\nnot\n{what}");
    }
}

fn shards() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let values = [1.0, 2.0, 3.0, 4.0];
    let tensors = ["a", "b", "c"].map(|name| Tensor::values(name, [2, 2], &values));
    save_safetensors(dir.path(), &tensors, Dtype::F32, 32).unwrap();
    dir
}

#[test]
fn shards_read_as_one() {
    let dir = shards();
    let index = std::fs::read_to_string(dir.path().join("model.safetensors.index.json")).unwrap();
    let want = r#"{
  "metadata": {
    "total_size": 48
  },
  "weight_map": {
    "a": "model-00001-of-00002.safetensors",
    "b": "model-00001-of-00002.safetensors",
    "c": "model-00002-of-00002.safetensors"
  }
}
"#;
    assert_eq!(index, want);
    let checkpoint = Checkpoint::open(dir.path()).unwrap();
    assert_eq!(checkpoint.files().len(), 3);
    for entry in checkpoint.entries() {
        assert_eq!(checkpoint.read_f32(&entry.name).unwrap(), [1.0, 2.0, 3.0, 4.0]);
    }
    assert!(Checkpoint::open(dir.path().join("model-00002-of-00002.safetensors")).unwrap().get("c").is_some());
}

#[test]
fn fault_08_every_bad_index_is_refused() {
    let first = "model-00001-of-00002.safetensors";
    let map = |pairs: &str| format!("{{\"weight_map\":{{{pairs}}}}}");
    for (index, what) in [
        (map("\"a\":\"../../x\""), "names the shard `../../x`, which is not a plain file name"),
        (map("\"a\":\"/etc/passwd\""), "not a plain file name"),
        (map("\"a\":\"..\""), "not a plain file name"),
        (map("\"a\":\"\""), "not a plain file name"),
        (map("\"a\":\"c:\\\\x\""), "not a plain file name"),
        (map("\"a\":\"x\\u0000\""), "not a plain file name"),
        (map("\"a\":\"model-00003-of-00003.safetensors\""), "`model-00003-of-00003.safetensors`, which is not there"),
        (map("\"a\":\"model.safetensors.index.json\""), "which is itself an index"),
        (map(&format!("\"a\":\"{first}\",\"z\":\"{first}\",\"y\":\"{first}\"")), "2 tensors are not in"),
        (map(&format!("\"a\":\"{first}\",\"a\":\"{first}\"")), "tensor `a` comes twice"),
        (map(""), "names no shards"),
        ("{}".into(), "missing field `weight_map`"),
        ("{\"weight_map\":[]}".into(), "is not an index of shards"),
        ("[".repeat(100_000), "is not an index of shards"),
        (String::new(), "is not an index of shards"),
    ] {
        let dir = shards();
        std::fs::write(dir.path().join("model.safetensors.index.json"), index).unwrap();
        let found = Checkpoint::open(dir.path()).unwrap_err().what;
        assert!(found.contains(what), "{found}\nnot\n{what}");
    }
}

#[test]
fn one_tensor_in_two_shards_is_refused() {
    let dir = shards();
    let (one, two) = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors");
    std::fs::copy(dir.path().join(one), dir.path().join(two)).unwrap();
    let index = format!("{{\"weight_map\":{{\"a\":\"{one}\",\"b\":\"{two}\"}}}}");
    std::fs::write(dir.path().join("model.safetensors.index.json"), index).unwrap();
    assert_eq!(Checkpoint::open(dir.path()).unwrap_err().what, "tensor `a` comes twice");
}

/// Through the map and in parallel: a file of more than a megabyte.
#[test]
fn a_large_file_comes_back_in_every_type_and_bit_for_bit() {
    let values = qkv_base::Key::new(3, 0, 0).normals(400_000);
    for dtype in [Dtype::F32, Dtype::BF16, Dtype::F16] {
        let dir = tempfile::tempdir().unwrap();
        let tensors = [Tensor::values("w", [400, 1000], &values), Tensor::values("v", [3], &values[..3])];
        save_safetensors(dir.path(), &tensors, dtype, u64::MAX).unwrap();
        let checkpoint = Checkpoint::open(dir.path()).unwrap();
        assert_eq!(checkpoint.files()[0].mapped, dtype == Dtype::F32 || checkpoint.files()[0].bytes > 1 << 20);
        let mut seen = Finiteness::default();
        let read = checkpoint.read_f32_counting("w", &mut seen).unwrap();
        let step = match dtype {
            Dtype::F32 => 0.0,
            Dtype::F16 => 0.5f32.powi(11),
            _ => 0.5f32.powi(8),
        };
        // Below 2⁻¹⁴ halves are 2⁻²⁴ apart whatever the value.
        let near = |(a, b): (&f32, &f32)| (a - b).abs() <= (a.abs() * step).max(if step > 0.0 { 3e-8 } else { 0.0 });
        assert!(seen.is_clean() && values.iter().zip(&read).all(near), "{dtype}");

        let again = tempfile::tempdir().unwrap();
        save_safetensors(again.path(), &checkpoint.tensors(), Dtype::F32, u64::MAX).unwrap();
        let bytes = |dir: &tempfile::TempDir| std::fs::read(dir.path().join(NAME)).unwrap();
        assert!(bytes(&dir) == bytes(&again));
    }
}
