"""Trains tokenizers with qkv-text, loads them with transformers and compares every id over 10,000 lines.

    cargo build --release -p qkv-text --example tokenizer
    python check_with_transformers.py TARGET_DIR/release/examples/tokenizer [TEXT …]

Lines of three scripts (Latin with accents, Devanagari, Han and kana, with emoji, tabs and addresses between) are made
here; lines of TEXT files are added to them if given. Also the other way: a SentencePiece model with the whole nmt_nfkc
table, trained here, must give the same ids in qkv-text.
"""

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import sentencepiece
from transformers import AutoTokenizer

PROGRAM, TEXTS = sys.argv[1], sys.argv[2:]
SCRIPTS = ["abcdefghilmnopqrstuvzàèéìòùABCDEÉ", "अआइईउकखगघचजटडतदनपबमयरलवसहािीुूेैोौंः्", "日月火水木金土山川田人口手目耳あいうえおかきくけこアイウエオ"]
ODD = ["😀", "👩‍👩‍👧", "https://example.org/a?b=c#d", "\t", "  ", "3.14159", "don't", "I'LL", "१२३", "２０", "<b>", "…", "—", "x_1", "\u200b", "ﬁ", "é"]


def made(n, seed):
    draw = random.Random(seed)
    words = ["".join(draw.choice(SCRIPTS[i % 3]) for _ in range(draw.randint(1, 9))) for i in range(3000)]
    def line(i):
        own = words[i % 3::3]
        return " ".join(draw.choice(ODD) if draw.random() < 0.12 else own[int(len(own) * draw.random() ** 3)]
                        for _ in range(draw.randint(2, 14)))
    return [line(i) for i in range(n)]


def run(*words):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def main():
    lines = made(10_000, 1)
    for text in TEXTS:
        lines += [l for l in Path(text).read_text(encoding="utf-8").replace("\r", "").split("\n") if l][:10_000]
    failed = 0
    with tempfile.TemporaryDirectory() as tmp:
        tmp = Path(tmp)
        learn, test = tmp / "learn.txt", tmp / "test.txt"
        learn.write_text("\n".join(made(6_000, 2) + lines[::3]), encoding="utf-8")
        test.write_text("\n".join(lines), encoding="utf-8")
        for kind, shape, vocab, family in [
            ("bpe", "gpt2", 2000, "gpt2"), ("bpe", "marian", 2000, "marian"), ("wordpiece", "bert", 2000, "bert"),
            ("unigram", "t5", 2000, "t5"), ("unigram", "llama", 2000, "llama"), ("char", "marian", 400, "marian"),
        ]:
            out = tmp / f"{kind}-{shape}"
            run("train", kind, shape, vocab, learn, out)
            for model_type in (None, family):
                # A model's config.json beside it must not make transformers choose another class.
                if model_type:
                    (out / "config.json").write_text(json.dumps({"model_type": model_type}))
                theirs = AutoTokenizer.from_pretrained(out)
                wrong = 0
                for line, row in zip(lines, run("encode", out, test).splitlines(), strict=True):
                    row = json.loads(row)
                    want = theirs(line, return_offsets_mapping=True)
                    same = row["ids"] == want["input_ids"] and [tuple(c) for c in row["chars"]] == want["offset_mapping"]
                    same = same and row["decoded"] == theirs.decode(want["input_ids"], skip_special_tokens=True)
                    wrong += not same
                failed += wrong
                print(f"{kind:9} {shape:6} model_type {model_type}: {len(lines) - wrong} of {len(lines)} lines the same"
                      f" ({type(theirs).__name__}, eos {theirs.eos_token}, pad {theirs.pad_token})")
        for kind, rule in [("unigram", "nmt_nfkc"), ("unigram", "nmt_nfkc_cf"), ("bpe", "nmt_nfkc"), ("bpe", "identity")]:
            prefix = tmp / f"spm-{kind}-{rule}"
            prefix.mkdir()
            sentencepiece.SentencePieceTrainer.train(
                input=str(learn), model_prefix=str(prefix / "m"), vocab_size=2000, model_type=kind, minloglevel=2,
                normalization_rule_name=rule, byte_fallback=kind == "bpe",
            )
            model = sentencepiece.SentencePieceProcessor(model_file=str(prefix / "m.model"))
            rows = run("encode", prefix / "m.model", test).splitlines()
            pairs = [(line, json.loads(row)["ids"], model.encode(line)) for line, row in zip(lines, rows, strict=True)]
            wrong = [pair for pair in pairs if pair[1] != pair[2]]
            failed += len(wrong)
            print(f"SentencePiece {kind} {rule}: {len(lines) - len(wrong)} of {len(lines)} lines the same")
            for line, ours, want in wrong[:3]:
                print(f"    {line!r}\n      ours {model.id_to_piece(ours)}\n      want {model.id_to_piece(want)}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
