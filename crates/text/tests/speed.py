"""Training a 16 k byte-level BPE: qkv-text and Python's tokenizers in turns, on the same file.

    cargo build --release -p qkv-text --example tokenizer
    python speed.py TARGET_DIR/release/examples/tokenizer [MEGABYTES] [ROUNDS]

The text is made here: words of syllables, as frequent as Zipf says. Peak memory is that of the child process.
"""

import bisect
import itertools
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = sys.argv[1]
SIZE = int(sys.argv[2]) if len(sys.argv) > 2 else 30
ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 2

PYTHON = """
import sys
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
t = Tokenizer(models.BPE())
t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tr = trainers.BpeTrainer(vocab_size=16000, min_frequency=2, special_tokens=["<|endoftext|>"], show_progress=False,
                         initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
t.train([sys.argv[1]], tr)
t.save(sys.argv[2])
"""


def text(path):
    draw = random.Random(3)
    syllables = [c + v for c in "bcdfghlmnprstvz" for v in "aeioùè"] + ["ка", "ло", "ми", "कि", "ला", "मे"]
    words = list({"".join(draw.choice(syllables) for _ in range(draw.randint(1, 5))) for _ in range(200_000)})
    words.sort()
    draw.shuffle(words)
    weights = list(itertools.accumulate(1 / (i + 10) for i in range(len(words))))
    written = 0
    with open(path, "w", encoding="utf-8") as out:
        while written < SIZE << 20:
            line = " ".join(words[bisect.bisect(weights, draw.random() * weights[-1])] for _ in range(12)) + ".\n"
            written += len(line.encode())
            out.write(line)


def timed(words):
    start = time.perf_counter()
    child = subprocess.Popen(words, stdout=subprocess.PIPE)
    said = child.stdout.read().decode().strip()
    _, _, usage = os.wait4(child.pid, 0)
    return time.perf_counter() - start, usage.ru_maxrss / 1024, said


with tempfile.TemporaryDirectory() as tmp:
    lines, out = Path(tmp) / "lines.txt", Path(tmp) / "out"
    text(lines)
    for turn in range(ROUNDS):
        for name, words in [("qkv-text", [PROGRAM, "train", "bpe", "gpt2", "16000", str(lines), str(out)]),
                            ("Python tokenizers", [sys.executable, "-c", PYTHON, str(lines), str(out) + ".json"])]:
            seconds, memory, said = timed(words)
            print(f"{name:18} {SIZE} MB, turn {turn}: {seconds:6.2f} s, peak {memory:5.0f} MB   {said}", flush=True)
    ours = (out / "tokenizer.json").read_text(encoding="utf-8")
    theirs = Path(str(out) + ".json").read_text(encoding="utf-8")
    import json

    a, b = json.loads(ours)["model"], json.loads(theirs)["model"]
    print("the same merges:", a["merges"] == b["merges"], "the same vocabulary:", a["vocab"] == b["vocab"])
