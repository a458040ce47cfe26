//! `pytorch_model.bin` against what torch says is in it, and fault 12 of the list.

use std::collections::BTreeMap;

use qkv_weights::{Array, Checkpoint, Dtype, Format, Value};
use serde::Deserialize;

use crate::{fixture, open, refused};

#[derive(Deserialize)]
struct Expected {
    shape: Vec<usize>,
    dtype: String,
    values: Vec<f32>,
}

fn dtype(name: &str) -> Dtype {
    match name {
        "float32" => Dtype::F32,
        "float16" => Dtype::F16,
        "bfloat16" => Dtype::BF16,
        "float64" => Dtype::F64,
        "int64" => Dtype::I64,
        "int32" => Dtype::I32,
        "int16" => Dtype::I16,
        "int8" => Dtype::I8,
        "uint8" => Dtype::U8,
        "bool" => Dtype::Bool,
        other => panic!("{other}"),
    }
}

/// Every type, views that are turned, stepped, expanded, and storages that are shared.
#[test]
fn both_formats_hold_what_torch_saved() {
    let expected: BTreeMap<String, Expected> =
        serde_json::from_slice(&std::fs::read(fixture("torch.json")).unwrap()).unwrap();
    for (file, format) in [("zip.bin", Format::TorchZip), ("legacy.bin", Format::TorchLegacy)] {
        let checkpoint = Checkpoint::open(fixture(file)).unwrap();
        assert_eq!((checkpoint.format(), checkpoint.entries().len()), (format, expected.len()));
        assert_eq!(checkpoint.entries()[1].name, "turned"); // the order of the dictionary
        for (name, want) in &expected {
            let entry = checkpoint.entry(name).unwrap();
            assert_eq!((&entry.shape, entry.dtype), (&want.shape, dtype(&want.dtype)), "{name}");
            assert_eq!(checkpoint.read_f32(name).unwrap(), want.values, "{name}");
            assert_eq!(checkpoint.read_raw(name).unwrap().len() as u64, entry.bytes);
        }
    }
}

#[test]
fn wrapped_states_are_found_and_the_rest_is_named() {
    let checkpoint = Checkpoint::open(fixture("wrapped.bin")).unwrap();
    assert_eq!(checkpoint.entries().len(), 1);
    assert_eq!(checkpoint.read_f32("plain").unwrap(), [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]);
    let ignored = ["epoch", "name", "state_dict.count"].map(str::to_owned).to_vec();
    assert_eq!(checkpoint.metadata().get("torch.ignored"), Some(&Value::Array(Array::String(ignored))));
}

#[test]
fn states_of_modules_deflated_archives_and_other_protocols() {
    for file in ["module.bin", "deflated.bin"] {
        let checkpoint = Checkpoint::open(fixture(file)).unwrap();
        let names: Vec<&str> = checkpoint.entries().iter().map(|e| e.name.as_str()).collect();
        assert_eq!(names, ["0.weight", "0.bias", "1.weight", "1.bias"]);
        assert_eq!(checkpoint.read_f32("0.bias").unwrap(), [0.0, 0.75]);
        assert_eq!(checkpoint.read_f32("1.weight").unwrap(), [1.0, 1.0]);
        assert!(checkpoint.metadata().is_empty());
    }
    let checkpoint = Checkpoint::open(fixture("protocol4.bin")).unwrap();
    assert_eq!(checkpoint.entry("wide").unwrap().dtype, Dtype::U16);
    assert_eq!(checkpoint.read_f32("wide").unwrap(), [1.0, 60000.0]);
}

#[test]
fn fault_12_what_is_no_plain_tensor_is_refused_by_name() {
    for (file, global) in [
        ("evil.bin", "posix.system"),
        ("sparse.bin", "torch._utils._rebuild_sparse_tensor"),
        ("quantised.bin", "torch._utils._rebuild_qtensor"),
    ] {
        let error = Checkpoint::open(fixture(file)).unwrap_err();
        assert!(error.what.contains("unsupported global") && error.hint.contains("trusted machine"), "{error}");
        assert!(error.what.contains(global), "{error}");
    }
}

#[test]
fn cut_anywhere_is_an_error() {
    for file in ["zip.bin", "legacy.bin", "deflated.bin"] {
        let good = std::fs::read(fixture(file)).unwrap();
        let tail = good.len() - 100;
        for length in (0..tail).step_by(7).chain(tail..good.len()) {
            assert!(open("x.bin", &good[..length]).is_err(), "{file} cut at {length}");
        }
    }
}

/// One stored or deflated file in an archive, with sizes that may lie.
fn archive(name: &str, method: u16, packed: &[u8], size: u32, crc: u32) -> Vec<u8> {
    let common = |out: &mut Vec<u8>| {
        for n in [0u16, method, 0, 0] {
            out.extend(n.to_le_bytes());
        }
        for n in [crc, packed.len() as u32, size] {
            out.extend(n.to_le_bytes());
        }
        out.extend((name.len() as u16).to_le_bytes());
        out.extend(0u16.to_le_bytes());
    };
    let mut out = b"PK\x03\x04\x14\0".to_vec();
    common(&mut out);
    out.extend(name.as_bytes());
    out.extend(packed);
    let directory = out.len() as u32;
    out.extend(b"PK\x01\x02\x14\0\x14\0");
    common(&mut out);
    out.extend([0; 14]); // comment, disk, attributes, offset 0
    out.extend(name.as_bytes());
    let length = out.len() as u32 - directory;
    out.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
    out.extend(length.to_le_bytes());
    out.extend(directory.to_le_bytes());
    out.extend([0, 0]);
    out
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut encoder, bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn fault_12_bombs_and_other_archives_are_refused() {
    let bomb = deflated(&vec![0; 8 << 20]);
    for (bytes, what) in [
        (archive("a/data.pkl", 8, &bomb, 8 << 20, 0), "more than 64 times its length"),
        (archive("a/data.pkl", 8, &bomb, 1 << 20, 0), "does not inflate to the 1048576 bytes that it claims"),
        (archive("a/data.pkl", 8, b"\xff\xff\xff", 9, 0), "does not inflate"),
        (archive("a/data.pkl", 0, b"N.", 2, 1), "`a/data.pkl` does not match its checksum"),
        (archive("a/data.pkl", 12, b"N.", 2, 1), "packed in an unknown way (12)"),
        (archive("a/other", 0, b"N.", 2, 1), "without data.pkl"),
        (b"PK\x03\x04".to_vec(), "without its end"),
    ] {
        let found = refused("x.bin", &bytes);
        assert!(found.contains(what), "{found}\nnot\n{what}");
    }
}

/// A program in a stream of the legacy format, with a storage `0` of two numbers behind it.
fn legacy(program: &[u8]) -> Vec<u8> {
    let mut out =
        b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.\x80\x02}.\x80\x02".to_vec();
    out.extend(program);
    out.extend(b".\x80\x02]X\x01\0\0\x000a.");
    out.extend(2u64.to_le_bytes());
    out.extend([1.0f32, 2.0].iter().flat_map(|v| v.to_le_bytes()));
    out
}

/// `{"w": _rebuild_tensor_v2(storage of `elements`, offset, shape, strides, False, {})}`, all small numbers.
fn program(class: &str, elements: u8, offset: u8, shape: &[u8], strides: &[u8]) -> Vec<u8> {
    let mut out = b"}X\x01\0\0\0wctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\n".to_vec();
    out.extend(class.as_bytes());
    out.extend(b"\nX\x01\0\0\x000X\x03\0\0\0cpuK");
    out.extend([elements, b't', b'Q', b'K', offset]);
    for sizes in [shape, strides] {
        out.push(b'(');
        sizes.iter().for_each(|&n| out.extend([b'K', n]));
        out.push(b't');
    }
    out.extend(b"\x89}tRs");
    out
}

#[test]
fn views_must_lie_in_their_storage() {
    let good = open("x.bin", &legacy(&program("FloatStorage", 2, 0, &[2], &[1]))).unwrap();
    assert_eq!(good.read_f32("w").unwrap(), [1.0, 2.0]);
    for (program, what) in [
        (
            program("FloatStorage", 2, 1, &[2], &[1]),
            "tensor `w`: shape [2] with strides [1] from 1 on reaches beyond the 2",
        ),
        (program("FloatStorage", 2, 0, &[3], &[1]), "reaches beyond"),
        (program("FloatStorage", 2, 0, &[2], &[2]), "reaches beyond"),
        (program("FloatStorage", 3, 0, &[2], &[1]), "its storage of 3 elements (F32) has only 8 bytes"),
        (program("FloatStorage", 2, 0, &[1; 9], &[0; 9]), "calls RebuildTensor(2) in an unknown way"),
        (
            program("FloatStorage", 2, 0, &[255, 255, 255, 255], &[0; 4]),
            "repeats the 2 elements of its storage too often",
        ),
        (program("FloatStorage", 2, 0, &[2], &[1, 1]), "calls RebuildTensor(2) in an unknown way"),
        (program("DoubleStorage", 2, 0, &[2], &[1]), "storage `0` takes 16 bytes, but only 8 are left"),
        (program("ComplexFloatStorage", 2, 0, &[2], &[1]), "unsupported global `torch.ComplexFloatStorage`"),
    ] {
        let found = refused("x.bin", &legacy(&program));
        assert!(found.contains(what), "{found}\nnot\n{what}");
    }
}

#[test]
fn a_file_without_tensors_says_what_it_holds() {
    for (program, what) in [
        (&b"N"[..], "holds nothing, not a dictionary of tensors"),
        (b"}X\x01\0\0\0wNs", "holds no tensors, only 1 other values: `w`"),
    ] {
        let with_storage = legacy(program);
        assert_eq!(refused("x.bin", &with_storage).split(" (").next(), Some("storage `0` belongs to no tensor"));
        let without = [&with_storage[..with_storage.len() - 27], b"\x80\x02]."].concat();
        assert_eq!(refused("x.bin", &without), what);
    }
}

#[test]
fn one_name_twice_is_refused() {
    let tensor = program("FloatStorage", 2, 0, &[2], &[1]);
    let twice = [&tensor[..], &tensor[1..]].concat();
    assert_eq!(refused("x.bin", &legacy(&twice)), "key `w` comes twice");
}
