#!/usr/bin/env python3
"""Load in Hugging Face transformers what qkv wrote, and compare what both compute.

    pip install torch transformers safetensors
    cargo run --release --example fresh -- /tmp/fresh
    python crates/model/tests/check_with_transformers.py /tmp/fresh
"""
import json, pathlib, sys
import torch, transformers

worst = 0.0
for folder in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    config = json.loads((folder / "config.json").read_text())
    cls = getattr(transformers, config["architectures"][0])
    model, info = cls.from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"], (folder.name, info)
    model.eval()
    said = json.loads((folder / "computed.json").read_text())
    with torch.no_grad():
        out = model(**{k: torch.tensor(v) for k, v in said["inputs"].items()})
    for key in [k for k in said["outputs"] if k in out]:
        off = (torch.tensor(said["outputs"][key]) - out[key]).abs().max().item()
        worst = max(worst, off)
        print(f"{folder.name:15} {key:28} off by {off:.2e}")
        assert off < 1e-4
print("all agree, worst", worst)
