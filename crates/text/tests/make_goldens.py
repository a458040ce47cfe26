"""Makes tests/data: tiny tokenizers of every format, and what the reference libraries make of some difficult lines.

    python make_goldens.py          (tokenizers, transformers, sentencepiece)

The text to learn from is made here, from a few words, so that nothing of anyone else's is stored.
"""

import json
import os
import random
import shutil
import unicodedata
import warnings
from pathlib import Path

import sentencepiece
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, MarianTokenizer

warnings.filterwarnings("ignore")
DATA = Path(__file__).resolve().parent / "data"

LINES = [
    "The cat sat on the mat.",
    "I'll say: don't, it's 3,14159 & they've 42!",
    "Perché la città è così bella? L'acqua è più fresca.",
    "बिल्ली घर में है। क्या वह सो रही है?",
    "😀 👩‍👩‍👧‍👦 🇮🇹 ❤️ emoji",
    "tabs\tand\t\ttabs  two   three    four",
    " leading and trailing ",
    "https://example.org/a/b?c=d&e=f#g me@example.org",
    "你好，世界。東京タワー 서울",
    "control \x07\x1b[0m\u200bzero\u00a0nbsp\u00adsoft",
    "ﬁne ½ ２０ Å Å é é ™",
    "UPPER lower MiXeD ÀÉÎ",
    "line\nbreak\r\nand\n\nmore",
    "<s> </s> [CLS] [MASK] <pad> <0x41>",
    "",
    " ",
    "aaaaaaaaaaaaaaaaaaaa",
    "̀combining at the start",
]

EN = "the a cat dog house water bread city sits eats sees drinks goes small large red old new why where two three".split()
IT = "il la un una gatto cane casa acqua pane città mangia vede beve è va piccolo grande perché dove più due tre così".split()
HI = "बिल्ली कुत्ता घर पानी रोटी शहर खाता देखता पीता है में का छोटा बड़ा लाल क्यों कहाँ दो तीन और".split()


def corpus(n=600):
    draw = random.Random(7)
    out = []
    for i in range(n):
        words = [EN, IT, HI][i % 3]
        out.append(" ".join(draw.choice(words) for _ in range(draw.randint(3, 9))) + draw.choice([".", "?", "!"]))
    return out + [line for line in LINES if line.strip()][:4]


def write(directory, name, value):
    directory.mkdir(parents=True, exist_ok=True)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=None, separators=(",", ":"))
    (directory / name).write_text(text, encoding="utf-8")


def fast(tokenizer, lines, special=True):
    rows = []
    for line in lines:
        e = tokenizer.encode(line, add_special_tokens=special)
        rows.append({"text": line, "ids": e.ids, "chars": e.offsets, "decoded": tokenizer.decode(e.ids)})
    return rows


def gpt2():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    out = DATA / "gpt2"
    out.mkdir(parents=True, exist_ok=True)
    tokenizer.model.save(str(out))
    write(out, "tokenizer_config.json", {"tokenizer_class": "GPT2Tokenizer", "eos_token": "<|endoftext|>"})
    reference = AutoTokenizer.from_pretrained(out)
    backend = reference.backend_tokenizer
    write(out, "expected.json", fast(backend, LINES))


def bert():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    out = DATA / "bert"
    out.mkdir(parents=True, exist_ok=True)
    tokenizer.model.save(str(out))
    write(out, "tokenizer_config.json", {"tokenizer_class": "BertTokenizer", "do_lower_case": True})
    reference = AutoTokenizer.from_pretrained(out)
    rows = fast(reference.backend_tokenizer, LINES)
    pair = reference.backend_tokenizer.encode("The cat", "la città")
    write(out, "expected.json", rows)
    write(out, "pair.json", {"ids": pair.ids, "type_ids": pair.type_ids})


def train_spm(prefix, **options):
    os.chdir(prefix.parent)  # a model keeps the names of its files; they should be short ones
    if "normalization_rule_name" not in options:
        options["normalization_rule_tsv"] = rules(Path("rules.tsv"))
    Path("corpus.txt").write_text("\n".join(corpus()), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input="corpus.txt", model_prefix=prefix.name, minloglevel=2, hard_vocab_limit=False, **options
    )
    for name in ("corpus.txt", "rules.tsv", f"{prefix.name}.vocab"):
        Path(name).unlink(missing_ok=True)
    return sentencepiece.SentencePieceProcessor(model_file=f"{prefix.name}.model")


def rules(path):
    """A small table of rewritings in the manner of nmt_nfkc, whose own is a quarter of a megabyte."""
    seen = sorted({c for line in LINES for c in line} | {chr(c) for c in range(0xA0, 0x180)} | {chr(c) for c in range(0xFF01, 0xFF5F)})
    table = {c: unicodedata.normalize("NFKC", c) for c in seen if unicodedata.normalize("NFKC", c) != c}
    for c in seen:
        nfd = unicodedata.normalize("NFD", c)
        if len(nfd) > 1 and unicodedata.normalize("NFC", nfd) == c:
            table[nfd] = c
    table |= {c: " " for c in "\t\n\r\u00a0\u200b"} | {c: "" for c in "\x07\x1b\u00ad"}
    code = lambda text: " ".join(f"{ord(c):X}" for c in text)
    path.write_text("".join(f"{code(a)}\t{code(b)}\n" for a, b in sorted(table.items())), encoding="utf-8")
    return str(path)


def spm_rows(model, lines):
    return [{"text": l, "ids": model.encode(l), "decoded": model.decode(model.encode(l))} for l in lines]


def t5():
    out = DATA / "t5"
    out.mkdir(parents=True, exist_ok=True)
    model = train_spm(
        out / "spiece", vocab_size=260, model_type="unigram", pad_id=0, eos_id=1, unk_id=2, bos_id=-1,
    )
    write(out, "tokenizer_config.json", {"tokenizer_class": "T5Tokenizer", "extra_ids": 10, "eos_token": "</s>",
                                         "pad_token": "<pad>", "unk_token": "<unk>"})
    write(out, "expected.json", spm_rows(model, LINES))


def llama():
    out = DATA / "llama"
    out.mkdir(parents=True, exist_ok=True)
    model = train_spm(
        out / "tokenizer", vocab_size=520, model_type="bpe", byte_fallback=True, unk_id=0, bos_id=1, eos_id=2, pad_id=-1,
        normalization_rule_name="identity", remove_extra_whitespaces=False, allow_whitespace_only_pieces=True,
    )
    write(out, "tokenizer_config.json", {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True})
    write(out, "expected.json", spm_rows(model, LINES))


def marian():
    out = DATA / "marian"
    out.mkdir(parents=True, exist_ok=True)
    source = train_spm(out / "source", vocab_size=150, model_type="unigram")
    target = train_spm(out / "target", vocab_size=170, model_type="unigram")
    (out / "source.model").rename(out / "source.spm")
    (out / "target.model").rename(out / "target.spm")
    pieces = ["</s>", "<unk>", ">>ita<<"]
    for model in (source, target):
        for i in range(model.get_piece_size()):
            piece = model.id_to_piece(i)
            # Every twentieth piece is left out: it must become <unk>.
            if piece not in pieces and not model.is_control(i) and not model.is_unknown(i) and i % 20 != 19:
                pieces.append(piece)
    pieces.append("<pad>")
    write(out, "vocab.json", {piece: i for i, piece in enumerate(pieces)})
    write(out, "tokenizer_config.json", {"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "it"})
    reference = MarianTokenizer.from_pretrained(out)
    lines = [l for l in LINES if "<s>" not in l] + [">>ita<< The cat sat."]
    rows = []
    for line in lines:
        ids, target_ids = reference(line).input_ids, reference(text_target=line).input_ids
        rows.append({"text": line, "ids": ids, "target": target_ids,
                     "decoded": reference.decode(target_ids, skip_special_tokens=True)})
    write(out, "expected.json", rows)


CHATS = [
    [{"role": "user", "content": " Ciao! <b>è</b> \n"}],
    [{"role": "system", "content": "You know cats."}, {"role": "user", "content": "Which?"},
     {"role": "assistant", "content": "<think>hm</think>\n\nAll of them. 😀"}, {"role": "user", "content": "घर?"}],
    [{"role": "assistant", "content": "I begin."}],
]
TOOLS = [{"type": "function", "name": "add", "parameters": {"b": [1, 2.5, None, True], "a": {"x": "è \"<"}, "empty": []}}]


def chats():
    tokenizer = AutoTokenizer.from_pretrained(DATA / "gpt2")
    tokenizer.bos_token, tokenizer.eos_token = "<s>", "</s>"
    rows = []
    for template in sorted((DATA.parent / "templates").glob("*.jinja")):
        for messages in CHATS:
            for generation in (False, True):
                for tools in (None, TOOLS):
                    row = {"template": template.stem, "messages": json.dumps(messages), "generation": generation,
                           "tools": json.dumps(tools)}
                    try:
                        row["want"] = tokenizer.apply_chat_template(
                            messages, tools=tools, chat_template=template.read_text(encoding="utf-8"), tokenize=False,
                            add_generation_prompt=generation,
                        )
                    except Exception as error:
                        row["error"] = str(error)
                    rows.append(row)
    write(DATA / "chat", "expected.json", rows)


if __name__ == "__main__":
    shutil.rmtree(DATA, ignore_errors=True)
    for make in (gpt2, bert, t5, llama, marian, chats):
        make()
