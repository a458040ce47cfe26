#!/usr/bin/env python3
"""Make tiny random checkpoints of every family with Hugging Face transformers, and record what they compute.

    pip install torch transformers safetensors      # PyPI; about 3 GB on disk
    python crates/model/tests/make_reference.py fixtures/tiny [--seed 0] [--width 32] [--only gemma2,qwen3]

For each family OUT/<name>/ holds a checkpoint as save_pretrained writes it (config.json, model.safetensors, ...)
and reference.json:
    inputs     the token ids (or pixels) and masks that were fed in
    outputs    every head's output as nested lists of f32, hidden states per layer, attention maps per layer
    generate   greedy and beam sequences (with scores) where the family generates
    train      loss, the gradient norm of every parameter, and the losses of five AdamW steps, dropout off
The weights are random, scaled up so that the logits are far apart and a greedy choice is never a near-tie.
"""
import argparse, json, pathlib
import torch
from transformers import (
    BartConfig, BartForConditionalGeneration, BertConfig, BertForMaskedLM,
    BertForQuestionAnswering, BertForSequenceClassification, BertForTokenClassification, DistilBertConfig,
    DistilBertForMaskedLM, ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining, ElectraForQuestionAnswering,
    ElectraForSequenceClassification, ElectraForTokenClassification, GPT2Config, GPT2LMHeadModel, Gemma2Config,
    Gemma2ForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig, LlamaForCausalLM, MarianConfig, MarianMTModel,
    Qwen3Config, Qwen3ForCausalLM, RobertaConfig, RobertaForMaskedLM, T5Config, T5ForConditionalGeneration, ViTConfig, ViTForImageClassification,
)

ap = argparse.ArgumentParser()
ap.add_argument("out", type=pathlib.Path)
ap.add_argument("--seed", type=int, default=0)
ap.add_argument("--width", type=int, default=32)
ap.add_argument("--layers", type=int, default=2)
ap.add_argument("--heads", type=int, default=4)
ap.add_argument("--vocab", type=int, default=97)
ap.add_argument("--only", default="")
args = ap.parse_args()
W, L, H, V = args.width, args.layers, args.heads, args.vocab
PAD, BOS, EOS = 0, 1, 2


def encoder_args():
    return dict(vocab_size=V, hidden_size=W, num_hidden_layers=L, num_attention_heads=H, intermediate_size=4 * W,
                max_position_embeddings=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, pad_token_id=PAD)


def pair_args():
    return dict(vocab_size=V, d_model=W, encoder_layers=L, decoder_layers=L, encoder_attention_heads=H,
                decoder_attention_heads=H, encoder_ffn_dim=4 * W, decoder_ffn_dim=3 * W, max_position_embeddings=64,
                dropout=0.0, attention_dropout=0.0, activation_dropout=0.0, pad_token_id=PAD, bos_token_id=BOS,
                eos_token_id=EOS, forced_eos_token_id=None, forced_bos_token_id=None)


def t5_args(**more):
    return dict(vocab_size=V, d_model=W, d_kv=W // H, d_ff=3 * W, num_layers=L, num_decoder_layers=L, num_heads=H,
                relative_attention_num_buckets=8, relative_attention_max_distance=20, dropout_rate=0.0,
                pad_token_id=PAD, eos_token_id=EOS, decoder_start_token_id=PAD, **more)


def llama_args(**more):
    return dict(vocab_size=V, hidden_size=W, intermediate_size=3 * W, num_hidden_layers=L, num_attention_heads=H,
                num_key_value_heads=H // 2, max_position_embeddings=64, attention_dropout=0.0, pad_token_id=PAD,
                bos_token_id=BOS, eos_token_id=EOS, **more)


def gemma_args(**more):
    """Heads wider than their share, a scale that is not theirs, and a window that the inputs outgrow."""
    return dict(llama_args(tie_word_embeddings=True), head_dim=16, query_pre_attn_scalar=20, sliding_window=4, **more)


def electra_args():
    return dict(encoder_args(), embedding_size=W // 2)


FAMILIES = {
    "bert-mlm": lambda: BertForMaskedLM(BertConfig(**encoder_args())),
    "bert-classify": lambda: BertForSequenceClassification(BertConfig(num_labels=3, **encoder_args())),
    "bert-tag": lambda: BertForTokenClassification(BertConfig(num_labels=5, **encoder_args())),
    "bert-answer": lambda: BertForQuestionAnswering(BertConfig(**encoder_args())),
    "roberta-mlm": lambda: RobertaForMaskedLM(RobertaConfig(**{**encoder_args(), "pad_token_id": PAD, "type_vocab_size": 1})),
    "distilbert-mlm": lambda: DistilBertForMaskedLM(DistilBertConfig(
        vocab_size=V, dim=W, n_layers=L, n_heads=H, hidden_dim=4 * W, max_position_embeddings=64, dropout=0.0,
        attention_dropout=0.0, pad_token_id=PAD)),
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(
        vocab_size=V, n_embd=W, n_layer=L, n_head=H, n_positions=64, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        bos_token_id=BOS, eos_token_id=EOS, pad_token_id=PAD)),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**llama_args(tie_word_embeddings=False))),
    "llama-tied": lambda: LlamaForCausalLM(LlamaConfig(**llama_args(tie_word_embeddings=True, rms_norm_eps=1e-5))),
    "t5": lambda: T5ForConditionalGeneration(T5Config(**t5_args(feed_forward_proj="relu", tie_word_embeddings=True))),
    "t5-gated": lambda: T5ForConditionalGeneration(T5Config(**t5_args(feed_forward_proj="gated-gelu", tie_word_embeddings=False))),
    "bart": lambda: BartForConditionalGeneration(BartConfig(decoder_start_token_id=EOS, **pair_args())),
    "marian": lambda: MarianMTModel(MarianConfig(decoder_start_token_id=PAD, scale_embedding=True,
                                                 activation_function="swish", **pair_args())),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(head_dim=16, **llama_args(tie_word_embeddings=True))),
    # The caps are low, so that they bite.
    "gemma2": lambda: Gemma2ForCausalLM(Gemma2Config(
        **gemma_args(attn_logit_softcapping=5.0, final_logit_softcapping=1.5))),
    "gemma3": lambda: Gemma3ForCausalLM(Gemma3TextConfig(**{
        **gemma_args(), "num_hidden_layers": 3, "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
        "rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
                            "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1000.0}}})),
    "electra-mlm": lambda: ElectraForMaskedLM(ElectraConfig(**electra_args())),
    "electra-detect": lambda: ElectraForPreTraining(ElectraConfig(**electra_args())),
    "electra-classify": lambda: ElectraForSequenceClassification(ElectraConfig(num_labels=3, **electra_args())),
    "electra-tag": lambda: ElectraForTokenClassification(ElectraConfig(num_labels=5, **electra_args())),
    "electra-answer": lambda: ElectraForQuestionAnswering(ElectraConfig(**electra_args())),
    "vit": lambda: ViTForImageClassification(ViTConfig(
        hidden_size=W, num_hidden_layers=L, num_attention_heads=H, intermediate_size=4 * W, image_size=12, patch_size=4,
        num_channels=3, num_labels=7, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)),
}


def tolist(x):
    return x.detach().to(torch.float32).tolist() if x.is_floating_point() else x.tolist()


def spread(model):
    """Random but decisive weights: biases and norms away from their identity start, matrices a little larger."""
    g = torch.Generator().manual_seed(args.seed + 17)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "embed_positions" in name and not p.requires_grad:
                continue
            noise = torch.randn(p.shape, generator=g)
            if p.dim() == 1:
                p.add_(0.1 * noise)
            else:
                p.copy_(noise * (1.6 / max(p.shape[-1], 1) ** 0.5))
            # Gemma multiplies its tied table by the root of the width: left as large, it would repeat the last token.
            if "embed_tokens" in name and "gemma" in model.config.model_type:
                p.mul_(0.3)
    if getattr(model, "final_logits_bias", None) is not None:
        model.final_logits_bias.normal_(0, 0.1, generator=g)


def record(name, make):
    torch.manual_seed(args.seed)
    model = make()
    model.config._attn_implementation = "eager"
    if hasattr(model, "set_attn_implementation"):
        model.set_attn_implementation("eager")
    spread(model)
    model.tie_weights()
    model.eval()
    folder = args.out / name
    model.save_pretrained(folder)
    ref = {"family": name, "seed": args.seed}
    g = torch.Generator().manual_seed(args.seed + 1)
    ids = torch.randint(3, V, (2, 9), generator=g)
    mask = torch.ones_like(ids)
    pair = name.startswith(("t5", "bart", "marian"))
    causal = name.startswith(("gpt2", "llama", "qwen", "gemma"))
    if name == "vit":
        inputs = {"pixel_values": torch.randn((2, 3, 12, 12), generator=g)}
        labels = {"labels": torch.tensor([1, 5])}
    else:
        if not causal:  # the second row is padded on the right
            ids[1, 6:] = PAD
            mask[1, 6:] = 0
        inputs = {"input_ids": ids, "attention_mask": mask}
        if pair:
            dec = torch.randint(3, V, (2, 7), generator=g)
            dec[:, 0] = model.config.decoder_start_token_id
            inputs["decoder_input_ids"] = dec
            labels = {"labels": torch.cat([dec[:, 1:], torch.full((2, 1), EOS)], 1)}
        elif name.endswith("-classify"):
            labels = {"labels": torch.tensor([2, 0])}
        elif name.endswith("-tag"):
            labels = {"labels": torch.randint(0, 5, (2, 9), generator=g).masked_fill(mask == 0, -100)}
        elif name.endswith("-answer"):
            labels = {"start_positions": torch.tensor([1, 2]), "end_positions": torch.tensor([4, 3])}
        elif name.endswith("-detect"):
            labels = {"labels": torch.randint(0, 2, (2, 9), generator=g)}
        elif causal:
            labels = {"labels": ids.clone()}
        else:
            labels = {"labels": ids.masked_fill((torch.rand(ids.shape, generator=g) > 0.4) | (mask == 0), -100)}
        if name.startswith(("bert", "electra")):
            kinds = torch.zeros_like(ids)
            kinds[:, 4:] = 1
            inputs["token_type_ids"] = kinds
    ref["inputs"] = {k: tolist(v) for k, v in inputs.items()}
    ref["labels"] = {k: tolist(v) for k, v in labels.items()}
    with torch.no_grad():
        out = model(**inputs, output_hidden_states=True, output_attentions=True)
    ref["outputs"] = {}
    for k, v in out.items():
        if k == "past_key_values" or v is None:
            continue
        ref["outputs"][k] = [tolist(x) for x in v] if isinstance(v, (tuple, list)) else tolist(v)
    if causal or pair:
        prompt = {"input_ids": ids[:1, :5] if causal else ids, "attention_mask": mask[:1, :5] if causal else mask}
        common = dict(max_new_tokens=12, do_sample=False, return_dict_in_generate=True, output_scores=True, num_return_sequences=1)
        greedy = model.generate(**prompt, num_beams=1, **common)
        beam = model.generate(**prompt, num_beams=4, length_penalty=0.8, early_stopping=True, **{**common, "num_return_sequences": 3})
        ref["generate"] = {
            "prompt": {k: tolist(v) for k, v in prompt.items()}, "max_new_tokens": 12,
            "greedy": {"sequences": tolist(greedy.sequences)},
            "beam": {"num_beams": 4, "length_penalty": 0.8, "early_stopping": True, "n_best": 3,
                     "sequences": tolist(beam.sequences), "scores": tolist(beam.sequences_scores)},
        }
    model.train()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-8, weight_decay=0.01)
    losses, norms = [], {}
    for step in range(5):
        opt.zero_grad()
        loss = model(**inputs, **labels).loss
        loss.backward()
        if step == 0:
            norms = {n: p.grad.norm().item() for n, p in model.named_parameters() if p.grad is not None}
        opt.step()
        losses.append(loss.item())
    ref["train"] = {"optimizer": "AdamW lr=1e-3 betas=(0.9,0.98) eps=1e-8 weight_decay=0.01 on every parameter",
                    "losses": losses, "grad_norms": norms}
    (folder / "reference.json").write_text(json.dumps(ref))
    print(f"{name:15} loss {losses[0]:.4f} -> {losses[-1]:.4f}  params {sum(p.numel() for p in model.parameters())}", flush=True)


only = set(filter(None, args.only.split(",")))
for family, make in FAMILIES.items():
    if not only or family in only:
        record(family, make)
