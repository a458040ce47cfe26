"""What PEFT writes and reads, for `tests/adapters.rs`. Nothing here is needed to build or test qkv.

    python adapters.py golden FIXTURES OUT        writes OUT/NAME/{adapter_config.json, adapter_model.safetensors, logits.json}
    python adapters.py check BASE ADAPTER         loads an adapter of qkv's on its base; prints logits of a fixed input
"""

import json
import sys
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoModelForSequenceClassification

MODELS = {
    "bert-classify": (AutoModelForSequenceClassification, ["query", "value"], "SEQ_CLS"),
    "gpt2": (AutoModelForCausalLM, ["c_attn"], "CAUSAL_LM"),
    "t5": (AutoModelForSeq2SeqLM, ["q", "v"], "SEQ_2_SEQ_LM"),
}


def ids(vocabulary):
    return torch.arange(2 * 7).reshape(2, 7) * 5 % (vocabulary - 8) + 5


def logits(model, task):
    more = {"decoder_input_ids": ids(model.config.vocab_size)[:, :5]} if task == "SEQ_2_SEQ_LM" else {}
    with torch.no_grad():
        rows = model.eval()(input_ids=ids(model.config.vocab_size), **more).logits
    return [round(x, 6) for x in rows.flatten().tolist()]


def golden(fixtures, out):
    for name, (kind, targets, task) in MODELS.items():
        torch.manual_seed(1)
        base = kind.from_pretrained(fixtures / name)
        config = LoraConfig(r=2, lora_alpha=6, lora_dropout=0.1, target_modules=targets, task_type=task,
                            fan_in_fan_out=name == "gpt2")
        model = get_peft_model(base, config)
        for path, p in model.named_parameters():
            if "lora_B" in path or "modules_to_save" in path:
                torch.nn.init.normal_(p, std=0.3)
        model.save_pretrained(out / name)
        (out / name / "README.md").unlink(missing_ok=True)
        (out / name / "logits.json").write_text(json.dumps(logits(model, task)))


def check(base, adapter):
    config = json.loads((adapter / "adapter_config.json").read_text())
    task = config["task_type"]
    kind = next(kind for kind, _, t in MODELS.values() if t == task)
    more = {}
    if task == "SEQ_CLS":
        labels = json.loads((adapter / "config.json").read_text())["id2label"]
        more = {"num_labels": len(labels)}
    model = PeftModel.from_pretrained(kind.from_pretrained(base, **more), adapter)
    print(json.dumps(logits(model, task)))


if __name__ == "__main__":
    {"golden": golden, "check": check}[sys.argv[1]](*map(Path, sys.argv[2:]))
