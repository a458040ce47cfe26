//! Which file is opened, and what is said of those that cannot be.

use qkv_weights::{Checkpoint, Dtype, Format, Metadata, Tensor, save_gguf, save_safetensors};

use crate::{fixture, open, refused};

#[test]
fn a_directory_is_searched_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let format = || Checkpoint::open(dir.path()).map(|checkpoint| checkpoint.format());
    let error = format().unwrap_err();
    assert!(error.what == "holds no weights" && error.hint.contains("model.safetensors"), "{error:?}");

    let values = [1.0];
    let tensors = [Tensor::values("w", [1], &values)];
    save_gguf(&dir.path().join("a.gguf"), &Metadata::new(""), &tensors, Dtype::F32).unwrap();
    assert_eq!(format().unwrap(), Format::Gguf { version: 3 });
    std::fs::copy(dir.path().join("a.gguf"), dir.path().join("b.gguf")).unwrap();
    assert_eq!(format().unwrap_err().what, "holds 2 GGUF files");

    std::fs::copy(fixture("legacy.bin"), dir.path().join("pytorch_model-1.bin")).unwrap();
    let index = dir.path().join("pytorch_model.bin.index.json");
    std::fs::write(&index, r#"{"weight_map":{"plain":"pytorch_model-1.bin"}}"#).unwrap();
    assert_eq!(format().unwrap(), Format::TorchLegacy);
    std::fs::copy(fixture("zip.bin"), dir.path().join("pytorch_model.bin")).unwrap();
    assert_eq!(format().unwrap(), Format::TorchZip);
    save_safetensors(dir.path(), &tensors, Dtype::F32, 100).unwrap();
    assert_eq!(format().unwrap(), Format::SafeTensors);
}

#[test]
fn a_file_is_known_by_its_first_bytes() {
    for (file, format) in [("zip.bin", Format::TorchZip), ("tiny.gguf", Format::Gguf { version: 3 })] {
        let bytes = std::fs::read(fixture(file)).unwrap();
        assert_eq!(open("anything", &bytes).unwrap().format(), format);
        assert_eq!(open("model.safetensors", &bytes).unwrap().format(), format);
    }
}

#[test]
fn others_are_named() {
    assert_eq!(refused("a.bin", b""), "is empty");
    assert!(refused("a.bin", b"version https://git-lfs.github.com/spec/v1\n").contains("git-lfs pointer"));
    assert!(refused("a.h5", b"\x89HDF\r\n\x1a\n").contains("is not a file of weights"));
    assert!(refused("a.pkl", b"\x80\x04N.").contains("is not a file of weights"));
}
