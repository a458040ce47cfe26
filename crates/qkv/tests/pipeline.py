"""Whether transformers' `pipeline()` opens what qkv writes, without edits. Run by hand:

    python crates/qkv/tests/pipeline.py target/release/qkv

It trains a tiny network of each task and family in a temporary directory and asks it in Python.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

from PIL import Image
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

QKV = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "target/release/qkv").resolve()
SMALL = ["--steps", "4", "--set", "model.width=32", "--set", "model.layers=1", "--set", "model.heads=2", "--set",
         "data.examples=60", "--set", "data.valid=8", "--set", "data.test=8", "--set", "eval.goal=0.0", "--quiet"]
failed = []


def run(place, *args):
    done = subprocess.run([str(QKV), *args], cwd=place, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"qkv {' '.join(args)}: {done.stderr[-500:]}")
    return done.stdout


def tried(name, ask):
    try:
        print(f"{name}: {str(ask())[:100]}")
    except Exception as error:  # whatever goes wrong is what this script is for
        failed.append(name)
        print(f"{name}: FAILED: {type(error).__name__}: {str(error)[:300]}")


def train(place, recipe, out, *more):
    run(place, "train", recipe, *SMALL, "--out", out, *more)
    return str(place / out / "model")


def pictures(place, mode):
    for i in range(60):
        kind = ["light", "dark"][i % 2]
        folder = place / mode / kind
        folder.mkdir(parents=True, exist_ok=True)
        value = (200 + i % 9 if kind == "light" else 20 + i % 9)
        Image.new(mode, (32, 32), value if mode == "L" else (value, value // 2, i % 255)).save(folder / f"{i}.png")
    return place / mode


with tempfile.TemporaryDirectory() as name:
    place = pathlib.Path(name)

    def text():
        model = train(place, "sentiment", "sentiment")
        said = pipeline("text-classification", model)("The food was great.")
        assert said[0]["label"] in ("positive", "negative"), said
        mine = json.loads(run(place, "classify", "sentiment", "The food was great.", "--json"))
        return said, mine

    def tags():
        return pipeline("token-classification", train(place, "entities", "entities"))("Prices rose in Nice .")

    def answers():
        model = train(place, "answers", "answers")
        return pipeline("question-answering", model)(question="Who is it?", context="It is Anna of Rome.")

    def masked():
        return pipeline("fill-mask", train(place, "bert", "bert"))("The film was [MASK].")[0]

    def written(recipe):
        return pipeline("text-generation", train(place, recipe, recipe))("Once upon a time", max_new_tokens=5)

    def pairs(recipe, *more):
        model = train(place, recipe, recipe, *more)
        tokenizer, network = AutoTokenizer.from_pretrained(model), AutoModelForSeq2SeqLM.from_pretrained(model)
        ids = network.generate(**tokenizer("The king is reading.", return_tensors="pt"), max_new_tokens=8)
        return tokenizer.decode(ids[0], skip_special_tokens=True)

    def seen(mode):
        folder = pictures(place, mode)
        model = train(place, "vit", f"vit-{mode}", "--data", str(folder))
        return pipeline("image-classification", model)(str(folder / "light" / "0.png"))

    def max_length():
        config = json.loads((place / "sentiment/model/tokenizer_config.json").read_text())
        assert config["model_max_length"] == 64, config
        return config["model_max_length"]

    tried("text-classification, bert", text)
    tried("tokenizer_config.json", max_length)
    tried("token-classification, bert", tags)
    tried("question-answering, bert", answers)
    tried("fill-mask, bert", masked)
    for recipe in ("gpt", "llama"):
        tried(f"text-generation, {recipe}", lambda: written(recipe))
    tried("translation, marian", lambda: pairs("translate", "--set", "model.inner=64"))
    tried("denoising, t5", lambda: pairs("t5"))
    tried("denoising, bart", lambda: pairs("bart"))
    tried("image-classification, grey", lambda: seen("L"))
    tried("image-classification, colour", lambda: seen("RGB"))

sys.exit(f"{len(failed)} failed: {', '.join(failed)}" if failed else 0)
