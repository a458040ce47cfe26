//! GGUF against what the `gguf` package says, and faults 10 and 11 of the list.

use qkv_weights::{Array, Checkpoint, Dtype, Format, Metadata, Tensor, Value, save_gguf};

use crate::{fixture, open, refused};

const NAME: &str = "x.gguf";

/// A GGUF file piece by piece, every number as given.
struct Builder {
    version: u32,
    pairs: Vec<Vec<u8>>,
    infos: Vec<Vec<u8>>,
    data: usize,
    /// instead of the true counts of tensors and pairs
    counts: Option<(u64, u64)>,
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

fn pair(key: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    [&text(key)[..], &kind.to_le_bytes(), value].concat()
}

fn array(kind: u32, count: u64, values: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &count.to_le_bytes(), values].concat()
}

/// Axes innermost first, as in the file.
fn info(name: &str, axes: &[u64], kind: u32, offset: u64) -> Vec<u8> {
    let mut out = text(name);
    out.extend((axes.len() as u32).to_le_bytes());
    axes.iter().for_each(|axis| out.extend(axis.to_le_bytes()));
    out.extend(kind.to_le_bytes());
    out.extend(offset.to_le_bytes());
    out
}

/// One pair and two tensors.
fn good() -> Builder {
    Builder {
        version: 3,
        pairs: vec![pair("general.architecture", 8, &text("llama"))],
        infos: vec![info("a", &[3, 2], 0, 0), info("b", &[5], 24, 32)],
        data: 64,
        counts: None,
    }
}

impl Builder {
    fn with(pairs: Vec<Vec<u8>>) -> Self {
        Self { pairs, ..good() }
    }

    fn tensors(infos: Vec<Vec<u8>>, data: usize) -> Self {
        Self { infos, data, ..good() }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        let (tensors, pairs) = self.counts.unwrap_or((self.infos.len() as u64, self.pairs.len() as u64));
        out.extend(tensors.to_le_bytes());
        out.extend(pairs.to_le_bytes());
        self.pairs.iter().chain(&self.infos).for_each(|piece| out.extend(piece));
        out.resize(out.len().next_multiple_of(32), 0);
        out.extend((0..self.data).map(|i| i as u8));
        out
    }
}

#[test]
fn a_file_by_hand() {
    for version in [2, 3] {
        let checkpoint = open(NAME, &Builder { version, ..good() }.bytes()).unwrap();
        assert_eq!(checkpoint.format(), Format::Gguf { version });
        assert_eq!(checkpoint.entry("a").unwrap().shape, [2, 3]);
        assert_eq!(checkpoint.read_raw("a").unwrap()[..4], [0, 1, 2, 3]);
        assert_eq!(checkpoint.read_f32("b").unwrap(), [32.0, 33.0, 34.0, 35.0, 36.0]);
    }
}

#[test]
fn zero_axes_and_scalars_load() {
    let infos = vec![info("zero", &[4, 0], 0, 0), info("scalar", &[], 0, 0), info("end", &[0], 0, 32)];
    let checkpoint = open(NAME, &Builder::tensors(infos, 4).bytes()).unwrap();
    assert_eq!(checkpoint.entry("zero").unwrap().shape, [0, 4]);
    assert!(checkpoint.read_f32("zero").unwrap().is_empty() && checkpoint.read_f32("end").unwrap().is_empty());
    assert_eq!(checkpoint.read_f32("scalar").unwrap().len(), 1);
    let nothing = Builder { pairs: vec![], infos: vec![], data: 0, ..good() };
    assert!(open(NAME, &nothing.bytes()).unwrap().entries().is_empty());
}

#[test]
fn other_alignments_hold() {
    let pairs = vec![pair("general.alignment", 4, &8u32.to_le_bytes())];
    let builder = Builder { pairs, infos: vec![info("a", &[5], 24, 0), info("b", &[3], 24, 8)], data: 11, ..good() };
    // 24 + 33 + 29 + 29 bytes of header, table and names end at 115, 120 is the next multiple of eight.
    let mut bytes = builder.bytes();
    let table = 24 + builder.pairs[0].len() + builder.infos[0].len() + builder.infos[1].len();
    bytes.drain(table.next_multiple_of(8)..table.next_multiple_of(32));
    let checkpoint = open(NAME, &bytes).unwrap();
    assert_eq!(checkpoint.read_f32("a").unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0]);
    assert_eq!(checkpoint.read_f32("b").unwrap(), [8.0, 9.0, 10.0]);
}

#[test]
fn fault_10_bad_headers() {
    for (version, what) in [
        (0, "is GGUF version 0, but only 2 and 3"),
        (1, "is GGUF version 1, but only 2 and 3"),
        (4, "is GGUF version 4, but only 2 and 3"),
        (3u32.swap_bytes(), "is a big-endian GGUF file (version 3)"),
    ] {
        let found = refused(NAME, &Builder { version, ..good() }.bytes());
        assert!(found.contains(what), "{found}\nnot\n{what}");
    }
    let mut bytes = good().bytes();
    bytes[0] = b'F';
    assert!(refused(NAME, &bytes).contains("is not a file of weights"));
    for (counts, what) in [
        ((1 << 63, 1), "9223372036854775808 tensors of at least 24 bytes each cannot be in"),
        ((2, 1 << 63), "9223372036854775808 metadata pairs"),
        ((u64::MAX, 1), "18446744073709551615 tensors"),
        ((2, u64::MAX), "18446744073709551615 metadata pairs"),
        ((2, 2), "bytes"),
        ((3, 1), "bytes"),
        ((2, 0), "has"),
    ] {
        let found = refused(NAME, &Builder { counts: Some(counts), ..good() }.bytes());
        assert!(found.contains(what), "{found}\nnot\n{what}");
    }
}

#[test]
fn fault_10_bad_metadata() {
    let long = |n: u64| n.to_le_bytes().to_vec();
    let mut deep = array(8, 1, &text("x"));
    for _ in 0..5 {
        deep = array(9, 1, &deep);
    }
    let a = || pair("a", 4, &[0; 4]);
    for (pairs, what) in [
        (vec![[long(1 << 60), vec![b'k'; 30]].concat()], "a metadata key claims 1152921504606846976 bytes"),
        (vec![pair("a", 8, &long(1 << 60))], "the value of `a` claims 1152921504606846976 bytes"),
        (vec![pair("a", 8, &long(1 << 20))], "the value of `a` takes 1048576 bytes, but only"),
        (vec![pair("a", 8, &[&long(1)[..], &[0xff]].concat())], "the value of `a` is not UTF-8 from its byte 0 on"),
        (vec![pair("a", 13, &[0; 8])], "has the unknown type 13"),
        (vec![pair("a", u32::MAX, &[0; 8])], "has the unknown type 4294967295"),
        (vec![pair("a", 9, &array(13, 1, &[0; 8]))], "is a list of the unknown type 13"),
        (vec![pair("a", 9, &array(4, 1 << 62, &[]))], "is a list of 4611686018427387904, more than metadata may hold"),
        (vec![pair("a", 9, &array(4, u64::MAX, &[]))], "more than metadata may hold"),
        (vec![pair("a", 9, &array(0, 1 << 20, &[]))], "takes 1048576 bytes, but only"),
        (vec![pair("a", 9, &array(8, 1 << 62, &[]))], "of at least 8 bytes each cannot be in"),
        (vec![pair("a", 9, &array(7, 1 << 62, &[]))], "of at least 1 bytes each cannot be in"),
        (vec![pair("a", 9, &deep)], "is lists within lists, more than 4 deep"),
        (vec![pair("a", 9, &array(9, 1, &[]).repeat(100_000))], "is lists within lists, more than 4 deep"),
        (vec![pair("a", 7, &[2])], "the value of `a` is 2, which is neither true nor false"),
        (vec![a(), pair("b", 0, &[1]), a()], "metadata key `a` comes twice"),
        (vec![pair("general.alignment", 4, &0u32.to_le_bytes())], "`general.alignment` is U32(0)"),
        (vec![pair("general.alignment", 4, &3u32.to_le_bytes())], "`general.alignment` is U32(3)"),
        (vec![pair("general.alignment", 4, &(1u32 << 31).to_le_bytes())], "`general.alignment` is U32(2147483648)"),
        (vec![pair("general.alignment", 10, &32u64.to_le_bytes())], "`general.alignment` is U64(32)"),
        (vec![pair("general.alignment", 8, &text("32"))], "`general.alignment` is String"),
        (vec![pair("split.count", 2, &3u16.to_le_bytes())], "is one of 3 parts of a model"),
    ] {
        let found = refused(NAME, &Builder::with(pairs).bytes());
        assert!(found.contains(what), "{found}\nnot\n{what}");
    }
}

/// A list longer than metadata may be is refused before it is copied, and many short ones before they add up.
#[test]
fn fault_11_metadata_has_a_cap() {
    let mut bytes = Builder::with(vec![pair("a", 9, &array(0, 65 << 20, &[]))]).bytes();
    bytes.resize(bytes.len() + (65 << 20), 0);
    assert!(refused(NAME, &bytes).contains("more than metadata may hold"));
    let part = |key: &str| pair(key, 9, &array(0, 33 << 20, &vec![0; 33 << 20]));
    let found = refused(NAME, &Builder::with(vec![part("a"), part("b")]).bytes());
    assert_eq!(found, "has more than 64 MB of metadata");
}

#[test]
fn fault_10_bad_tensors() {
    for (infos, data, what) in [
        (vec![info("a", &[1, 1, 1, 1, 1], 0, 0)], 32, "tensor `a` has 5 axes"),
        (vec![info("a", &[u64::MAX], 0, 0)], 32, "tensor `a` has an axis that overflows"),
        (vec![info("a", &[1 << 32, 1 << 32], 0, 0)], 32, "tensor `a` of shape [4294967296, 4294967296] overflows"),
        (vec![info("a", &[1 << 62], 0, 0)], 32, "overflows"),
        (vec![info("a", &[1 << 40], 24, 0)], 32, "tensor `a` needs 1099511627776 bytes, but the file holds only 32"),
        (vec![info("a", &[9], 0, 0)], 32, "tensor `a` needs 36 bytes, but the file holds only 32"),
        (vec![info("a", &[31], 8, 0)], 64, "is not whole blocks of Q8_0"),
        (vec![info("a", &[32, 3], 14, 0)], 64, "is not whole blocks of Q6_K"),
        (vec![info("a", &[], 8, 0)], 64, "is not whole blocks of Q8_0"),
        (vec![info("a", &[1], 0, 32)], 64, "lies at offset 32, but 0 is expected"),
        (vec![info("a", &[1], 0, u64::MAX)], 64, "lies at offset 18446744073709551615"),
        (vec![info("a", &[1], 0, 0), info("b", &[1], 0, 4)], 64, "tensor `b` lies at offset 4, but 32 is expected"),
        (vec![info("a", &[1], 0, 0), info("b", &[1], 0, 0)], 64, "tensor `b` lies at offset 0, but 32 is expected"),
        (vec![info("a", &[1], 0, 0), info("a", &[1], 0, 32)], 64, "tensor `a` comes twice"),
        (vec![info("a", &[32], 4, 0)], 64, "tensor `a` is of ggml type 4, which cannot be read"),
        (vec![info("a", &[32], 20, 0)], 64, "is of ggml type 20 (IQ4_NL), which cannot be read"),
        (vec![info("a", &[32], u32::MAX, 0)], 64, "is of ggml type 4294967295"),
        (vec![[&(1u64 << 60).to_le_bytes()[..], &[0; 32]].concat()], 64, "the name of a tensor claims"),
    ] {
        let found = refused(NAME, &Builder::tensors(infos, data).bytes());
        assert!(found.contains(what), "{found}\nnot\n{what}");
    }
}

#[test]
fn cut_anywhere_is_an_error() {
    let good = good().bytes();
    let last = good.len() - (64 - 37); // the last tensor ends here, what follows is padding
    for length in 0..last {
        assert!(open(NAME, &good[..length]).is_err(), "cut at {length}");
    }
    assert!(open(NAME, &good[..last]).is_ok());
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

/// Everything that the `gguf` package wrote.
#[test]
fn the_file_of_the_reference_writer() {
    let checkpoint = Checkpoint::open(fixture("tiny.gguf")).unwrap();
    let metadata = checkpoint.metadata();
    let strings = |words: &[&str]| words.iter().map(|w| w.to_string()).collect();
    for (key, value) in [
        ("general.architecture", Value::String("llama".into())),
        ("u8", Value::U8(200)),
        ("i8", Value::I8(-100)),
        ("u16", Value::U16(60000)),
        ("i16", Value::I16(-30000)),
        ("u32", Value::U32(4000000000)),
        ("i32", Value::I32(-2000000000)),
        ("f32", Value::F32(0.1)),
        ("bool", Value::Bool(true)),
        ("string", Value::String("héllo".into())),
        ("u64", Value::U64(1 << 63)),
        ("i64", Value::I64(-(1 << 62))),
        ("f64", Value::F64(0.1)),
        ("words", Value::Array(Array::String(strings(&["a", "", "ü"])))),
        ("ints", Value::Array(Array::I32(vec![1, -2, 3]))),
        ("floats", Value::Array(Array::F32(vec![0.5, 1.5]))),
        ("truths", Value::Array(Array::Bool(vec![true, false]))),
    ] {
        assert_eq!(metadata.get(key), Some(&value));
    }
    let shape = |name: &str| checkpoint.entry(name).unwrap().shape.clone();
    assert_eq!((shape("token_embd.weight"), shape("half"), shape("q8")), (vec![2, 32], vec![3, 2], vec![1, 64]));
    let read = |name: &str| checkpoint.read_f32(name).unwrap();
    assert_eq!(read("token_embd.weight")[..3], [0.0, 0.125, 0.25]);
    assert_eq!(read("half"), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!((read("ints"), read("double")), (vec![1.0, -2.0, 3.0], vec![0.25, -8.0]));
    assert_eq!(read("brain"), [1.5, -2.0]);
    let want = floats(&std::fs::read(fixture("tiny.f32")).unwrap());
    assert_eq!([read("q8"), read("q4")].concat(), want);
}

/// Random blocks of every kind, bit for bit.
#[test]
fn blocks_are_decoded_as_the_reference_does() {
    let golden = std::fs::read(fixture("blocks.bin")).unwrap();
    let mut rest = &golden[..];
    let mut take = |n: usize| {
        let (taken, left) = rest.split_at(n);
        rest = left;
        (taken, left.is_empty())
    };
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
    let mut kinds = 0;
    loop {
        let kind = number(take(4).0);
        let length = number(take(4).0) as usize;
        let blocks = take(length).0;
        let count = number(take(4).0) as usize;
        let (want, done) = take(count * 4);
        let mut bytes = Builder::tensors(vec![info("a", &[count as u64], kind, 0)], 0).bytes();
        bytes.extend(blocks);
        let read = open(NAME, &bytes).unwrap().read_f32("a").unwrap();
        for (i, (a, b)) in read.iter().zip(floats(want)).enumerate() {
            assert_eq!(a.to_bits(), b.to_bits(), "type {kind}, value {i}: {a} and {b}");
        }
        kinds += 1;
        if done {
            break;
        }
    }
    assert_eq!(kinds, 10);
}

/// The scale is one number of full precision, then 256 bytes.
#[test]
fn q8_k_by_hand() {
    let mut bytes = Builder::tensors(vec![info("a", &[256], 15, 0)], 0).bytes();
    bytes.extend(0.5f32.to_le_bytes());
    bytes.extend((0..=255u8).chain([9; 32]));
    let read = open(NAME, &bytes).unwrap().read_f32("a").unwrap();
    assert_eq!((read[1], read[127], read[128], read[255]), (0.5, 63.5, -64.0, -0.5));
}

#[test]
fn q8_0_is_encoded_as_the_reference_does() {
    let golden = std::fs::read(fixture("q8_0.bin")).unwrap();
    let (values, blocks) = golden.split_at(8 * 32 * 4);
    let values = floats(values);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(NAME);
    save_gguf(&path, &Metadata::new(""), &[Tensor::values("w", [8, 32], &values)], Dtype::Q8_0).unwrap();
    let checkpoint = Checkpoint::open(&path).unwrap();
    assert_eq!(checkpoint.entry("w").unwrap().dtype, Dtype::Q8_0);
    assert_eq!(*checkpoint.read_raw("w").unwrap(), *blocks);
}

#[test]
fn what_is_written_comes_back() {
    let source = Checkpoint::open(fixture("tiny.gguf")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(NAME);
    let mut metadata = source.metadata().clone();
    metadata.set("lists", Value::Array(Array::Array(vec![Array::U64(vec![1]), Array::F64(vec![0.5])])));
    for list in [
        Array::U8(vec![1]),
        Array::I8(vec![-1]),
        Array::U16(vec![2]),
        Array::I16(vec![-2]),
        Array::U32(vec![3]),
        Array::I64(vec![-4]),
    ] {
        metadata.set(format!("{list:?}"), Value::Array(list));
    }
    save_gguf(&path, &metadata, &source.tensors(), Dtype::F32).unwrap();
    let again = Checkpoint::open(&path).unwrap();
    assert!(again.metadata().iter().eq(metadata.iter()));
    assert_eq!(again.entries(), source.entries());
    for entry in source.entries() {
        assert_eq!(again.read_raw(&entry.name).unwrap(), source.read_raw(&entry.name).unwrap());
    }
}

#[test]
fn vectors_stay_f32_and_odd_rows_become_f16() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(NAME);
    let values = [0.5; 96];
    let tensors = [
        Tensor::values("norm", [96], &values),
        Tensor::values("odd", [2, 48], &values),
        Tensor::values("even", [3, 32], &values),
    ];
    let types = |dtype| {
        save_gguf(&path, &Metadata::new(""), &tensors, dtype).unwrap();
        let checkpoint = Checkpoint::open(&path).unwrap();
        checkpoint.entries().iter().map(|entry| entry.dtype).collect::<Vec<_>>()
    };
    assert_eq!(types(Dtype::Q8_0), [Dtype::F32, Dtype::F16, Dtype::Q8_0]);
    assert_eq!(types(Dtype::F16), [Dtype::F32, Dtype::F16, Dtype::F16]);
    assert_eq!(types(Dtype::F32), [Dtype::F32; 3]);
}

#[test]
fn what_cannot_be_written_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(NAME);
    let big = [1e9; 32];
    let write = |tensors: &[Tensor], dtype| save_gguf(&path, &Metadata::new(""), tensors, dtype).unwrap_err().what;
    assert_eq!(write(&[], Dtype::Q4K), "cannot be written as Q4_K");
    assert!(write(&[Tensor::values("w", [1, 32], &big)], Dtype::Q8_0).contains("`w` holds 1e9 at index 0, which Q8_0"));
    assert!(write(&[Tensor::values("w", [1, 32], &big)], Dtype::F16).contains("which F16 cannot hold"));
    assert!(write(&[Tensor::values("w", [1, 1, 1, 1, 32], &big)], Dtype::F32).contains("no form in GGUF"));
    assert!(write(&[Tensor::raw("w", [1], Dtype::U8, || Ok(vec![1].into()))], Dtype::F32).contains("no form in GGUF"));
    let twice = [Tensor::values("w", [32], &big), Tensor::values("w", [32], &big)];
    assert_eq!(write(&twice, Dtype::F32), "tensor `w` comes twice");
    let mut metadata = Metadata::new("");
    metadata.set("general.alignment", Value::U32(64));
    assert!(save_gguf(&path, &metadata, &[], Dtype::F32).is_err());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
