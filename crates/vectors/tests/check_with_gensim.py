#!/usr/bin/env python3
"""gensim reads what `qkv vectors train` writes, finds the same neighbours, and qkv reads what gensim writes.

    pip install gensim
    python check_with_gensim.py path/to/qkv
"""
import json, pathlib, subprocess, sys, tempfile
from gensim.models import KeyedVectors

qkv, folder = sys.argv[1], pathlib.Path(tempfile.mkdtemp())
run = lambda *args: subprocess.run([qkv, "vectors", *map(str, args)], check=True, capture_output=True, text=True).stdout
near = lambda file, word: [(n["word"], round(n["cosine"], 4)) for n in json.loads(run("near", file, word, "--json"))]
for name in ["v.txt", "v.bin"]:
    ours, theirs = folder / name, folder / f"gensim-{name}"
    run("train", "--data", "builtin:senses", "--out", ours, "--epochs", 1, "--width", 24, "--sample", 0.01)
    loaded = KeyedVectors.load_word2vec_format(ours, binary=name.endswith(".bin"))
    loaded.save_word2vec_format(theirs, binary=name.endswith(".bin"))
    for word in ["apple", "bank", "king"]:
        want = [(w, round(c, 4)) for w, c in loaded.most_similar(word, topn=10)]
        for file in [ours, theirs]:
            got = near(file, word)
            assert [w for w, _ in got] == [w for w, _ in want], (file, word, got, want)
            assert all(abs(a - b) < 2e-4 for (_, a), (_, b) in zip(got, want)), (file, word, got, want)
print("the same neighbours, both ways, both formats")
