"""Writes the files that the tests read, with torch 2.15 and gguf: python make_fixtures.py fixtures"""
import collections
import json
import os
import sys
import zipfile

import gguf
import numpy as np
import torch
from gguf import quants, GGMLQuantizationType as T

out = sys.argv[1]
torch.manual_seed(1)
a = torch.arange(6, dtype=torch.float32).reshape(2, 3) / 4
base = torch.arange(12, dtype=torch.float32)
state = collections.OrderedDict(
    plain=a,
    turned=a.t(),
    half=(a * 3).half(),
    brain=(a * 5).bfloat16(),
    double=a.double() / 3,
    long=torch.tensor([-1, 2**40, 7]),
    int=torch.tensor([-5, 6], dtype=torch.int32),
    short=torch.tensor([-300, 300], dtype=torch.int16),
    char=torch.tensor([-128, 127], dtype=torch.int8),
    byte=torch.tensor([0, 255], dtype=torch.uint8),
    bool=torch.tensor([True, False, True]),
    first=base[:6].view(2, 3),
    second=base[6:],
    stepped=base[1::3],
    expanded=torch.tensor([2.5]).expand(4, 3),
    scalar=torch.tensor(1.5),
    empty=torch.empty(0, 4),
    parameter=torch.nn.Parameter(a + 1),
)
expected = {
    name: {"shape": list(t.shape), "dtype": str(t.dtype)[6:], "values": t.detach().float().flatten().tolist()}
    for name, t in state.items()
}
json.dump(expected, open(f"{out}/torch.json", "w"), separators=(",", ":"))
torch.save(state, f"{out}/zip.bin")
torch.save(state, f"{out}/legacy.bin", _use_new_zipfile_serialization=False)
torch.save({"state_dict": {"plain": a, "count": 3}, "epoch": 4, "name": "x"}, f"{out}/wrapped.bin")
torch.save({"wide": torch.tensor([1, 60000], dtype=torch.uint16), "plain": a}, f"{out}/protocol4.bin", pickle_protocol=4)
module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2))
module.load_state_dict({"0.weight": a, "0.bias": a[:, 0], "1.weight": torch.ones(2), "1.bias": torch.zeros(2)})
torch.save(module.state_dict(), f"{out}/module.bin")  # carries _metadata

def deflate(source, target):
    with zipfile.ZipFile(source) as read, zipfile.ZipFile(target, "w") as write:
        for name in read.namelist():
            write.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), read.read(name), zipfile.ZIP_DEFLATED)


deflate(f"{out}/module.bin", f"{out}/deflated.bin")


class Evil:
    def __reduce__(self):
        return (os.system, ("true",))


torch.save({"w": a, "evil": Evil()}, f"{out}/evil.bin")
torch.save({"w": a.to_sparse()}, f"{out}/sparse.bin")
torch.save({"w": torch.quantize_per_tensor(a, 0.1, 0, torch.qint8)}, f"{out}/quantised.bin")

# Random blocks of each quantised kind: the type's number, the bytes, and what gguf makes of them, as bits.
SCALES = {
    T.Q4_0: [0],
    T.Q4_1: [0, 2],
    T.Q5_0: [0],
    T.Q5_1: [0, 2],
    T.Q8_0: [0],
    T.Q2_K: [80, 82],
    T.Q3_K: [108],
    T.Q4_K: [0, 2],
    T.Q5_K: [0, 2],
    T.Q6_K: [208],
}
rng = np.random.default_rng(7)
with open(f"{out}/blocks.bin", "wb") as f:
    for t in SCALES:
        n, size = gguf.GGML_QUANT_SIZES[t]
        blocks = 4 if n == 32 else 2
        b = rng.integers(0, 256, (blocks, size), dtype=np.uint8)
        for k in SCALES[t]:  # scales that are numbers
            b[:, k:k + 2] = rng.normal(0, 0.1, blocks).astype(np.float16)[:, None].view(np.uint8)
        y = quants.dequantize(b, t).astype("<f4")
        for part in (np.uint32(int(t)), np.uint32(b.size), b, np.uint32(y.size), y):
            f.write(part.tobytes())
# Values and the Q8_0 blocks that gguf makes of them.
x = rng.normal(0, 1, (8, 32)).astype(np.float32)
x[0, :5] = [127, 0.5, 1.5, -2.5, 63.5]
x[1] = 0
x[2] *= 1e-30
x[3] *= 1e4
with open(f"{out}/q8_0.bin", "wb") as f:
    f.write(x.astype("<f4").tobytes() + quants.quantize(x, T.Q8_0).tobytes())

w = gguf.GGUFWriter(f"{out}/tiny.gguf", "llama")
w.add_uint8("u8", 200)
w.add_int8("i8", -100)
w.add_uint16("u16", 60000)
w.add_int16("i16", -30000)
w.add_uint32("u32", 4000000000)
w.add_int32("i32", -2000000000)
w.add_float32("f32", 0.1)
w.add_bool("bool", True)
w.add_string("string", "héllo")
w.add_uint64("u64", 2**63)
w.add_int64("i64", -(2**62))
w.add_float64("f64", 0.1)
w.add_array("words", ["a", "", "ü"])
w.add_array("ints", [1, -2, 3])
w.add_array("floats", [0.5, 1.5])
w.add_array("truths", [True, False])
w.add_tensor("token_embd.weight", (np.arange(64, dtype=np.float32) / 8).reshape(2, 32))
w.add_tensor("half", np.arange(6, dtype=np.float16).reshape(3, 2))
w.add_tensor("norm", np.arange(5, dtype=np.float32))
w.add_tensor("ints", np.array([[1, -2, 3]], dtype=np.int32))
w.add_tensor("double", np.array([0.25, -8], dtype=np.float64))
w.add_tensor("q8", quants.quantize(x[4:6].reshape(1, 64), T.Q8_0), raw_dtype=T.Q8_0)
w.add_tensor("q4", quants.quantize(x[4:6].reshape(1, 64), T.Q4_0), raw_dtype=T.Q4_0)
w.add_tensor("brain", quants.quantize(np.array([[1.5, -2.0]], dtype=np.float32), T.BF16), raw_dtype=T.BF16)
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()
row = x[4:6].reshape(1, 64)
y = np.concatenate([quants.dequantize(quants.quantize(row, t), t).flatten() for t in (T.Q8_0, T.Q4_0)])
y.astype("<f4").tofile(f"{out}/tiny.f32")
