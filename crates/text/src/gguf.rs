//! The vocabulary of a GGUF file as a tokenizer: `gpt2` (byte-level BPE), `llama` (SentencePiece), `bert` (WordPiece).
//!
//! GGUF does not say how text is split into words, only the name of a rule (`tokenizer.ggml.pre`); the rules are
//! llama.cpp's, one row each in [`RULES`].

use crate::special::Said;
use crate::spm;
use crate::tokenizer::Tokenizer;
use crate::tokenizer_json::{self, TokenizerJson};
use qkv_base::{Error, Result, nearest};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// What a GGUF file says under `tokenizer.*`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct GgufVocab {
    /// `tokenizer.ggml.model`: gpt2, llama or bert
    pub model: String,
    /// `tokenizer.ggml.pre`
    pub pre: Option<String>,
    /// `tokenizer.ggml.tokens`
    pub tokens: Vec<String>,
    /// `tokenizer.ggml.scores`, for llama
    pub scores: Vec<f32>,
    /// `tokenizer.ggml.token_type`: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte
    pub types: Vec<i32>,
    /// `tokenizer.ggml.merges`, for gpt2
    pub merges: Vec<String>,
    /// `tokenizer.ggml.bos_token_id`
    pub bos: Option<u32>,
    /// `tokenizer.ggml.eos_token_id`
    pub eos: Option<u32>,
    /// `tokenizer.ggml.unknown_token_id`
    pub unk: Option<u32>,
    /// `tokenizer.ggml.padding_token_id`
    pub pad: Option<u32>,
    /// `tokenizer.ggml.add_bos_token`
    pub add_bos: Option<bool>,
    /// `tokenizer.ggml.add_eos_token`
    pub add_eos: Option<bool>,
    /// `tokenizer.ggml.add_space_prefix`
    pub add_space_prefix: Option<bool>,
    /// `tokenizer.chat_template`
    pub chat_template: Option<String>,
}

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)";
const LLAMA3: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK3: &str = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";
const BLOOM: &str = r" ?[^(\s|.,!?…。，、।۔،)]+";

/// A rule's names, the patterns that cut one after the other, and whether a word that is a piece is taken whole.
type Rule = (&'static [&'static str], &'static [&'static str], bool);

const RULES: &[Rule] = &[
    (&["default"], &[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"], false),
    (
        &[
            "gpt-2",
            "phi-2",
            "jina-es",
            "jina-de",
            "jina-v2-es",
            "jina-v2-de",
            "gigachat",
            "mellum",
            "modern-bert",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "granite-docling",
            "jina-v1-en",
            "jina-v2-code",
            "roberta-bpe",
            "exaone4",
        ],
        &[GPT2],
        false,
    ),
    (
        &["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"],
        &[r"\p{N}", GPT2],
        false,
    ),
    (&["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"], &[LLAMA3], true),
    (&["chatglm-bpe", "glm4"], &[LLAMA3], true),
    (&["dbrx", "smaug-bpe"], &[LLAMA3], false),
    (&["qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "megrez"], &[QWEN2], false),
    (&["deepseek-coder"], &["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"], false),
    (&["deepseek-v3", "hunyuan-dense", "joyai-llm"], &[r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK3], false),
    (&["falcon"], &[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"], false),
    (&["bloom", "poro-chat", "gpt3-finnish"], &[BLOOM], false),
    (&["viking"], &[BLOOM, r"\p{N}"], false),
];

impl GgufVocab {
    /// Builds the tokenizer; `place` (the file) is named in errors.
    pub fn tokenizer(&self, place: &str) -> Result<Tokenizer> {
        self.check(place)?;
        let json = match self.model.as_str() {
            "gpt2" => self.gpt2(place)?,
            "llama" => self.llama(),
            "bert" => self.bert(place)?,
            other => {
                let what = format!("the tokenizer model `{other}`");
                return Err(Error::new(place, what, "gpt2, llama and bert can be read"));
            }
        };
        let chats = self.chat_template.iter().map(|t| ("default".to_string(), t.clone())).collect();
        let mut tokenizer = Tokenizer::from_parts(place, &json.into_value(), &Said::default(), chats)?;
        let special = &mut tokenizer.special;
        (special.bos, special.eos) = (self.bos.or(special.bos), self.eos.or(special.eos));
        (special.unk, special.pad) = (self.unk.or(special.unk), self.pad.or(special.pad));
        Ok(tokenizer)
    }

    /// Lists of one length, ids that exist.
    fn check(&self, place: &str) -> Result<()> {
        let n = self.tokens.len();
        for (name, length) in [("scores", self.scores.len()), ("token_type", self.types.len())] {
            if length != 0 && length != n {
                let what = format!("{n} tokens, but {length} {name}");
                return Err(Error::new(place, what, "the file is damaged"));
            }
        }
        for (name, id) in [("bos", self.bos), ("eos", self.eos), ("unknown", self.unk), ("padding", self.pad)] {
            if let Some(id) = id.filter(|id| *id as usize >= n) {
                return Err(Error::new(
                    place,
                    format!("the {name} token is {id}, of {n} tokens"),
                    "the file is damaged",
                ));
            }
        }
        Ok(())
    }

    fn gpt2(&self, place: &str) -> Result<TokenizerJson> {
        let pre = self.pre.as_deref().unwrap_or("default");
        let rule = RULES.iter().find(|(names, _, _)| names.contains(&pre));
        let Some((_, patterns, ignore_merges)) = rule else {
            let known: Vec<&str> = RULES.iter().flat_map(|(names, _, _)| names.iter().copied()).collect();
            let near = nearest(pre, known.iter().copied()).unwrap_or("default");
            let what = format!("the rule of words `{pre}` (tokenizer.ggml.pre) is not known");
            return Err(Error::new(place, what, format!("did you mean `{near}`? known are {}", known.join(", "))));
        };
        let mut parts: Vec<Value> = patterns.iter().map(|pattern| tokenizer_json::split(pattern)).collect();
        parts.push(tokenizer_json::byte_level(self.add_space_prefix.unwrap_or(false), false));
        let model = json!({"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                           "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
                           "ignore_merges": ignore_merges, "vocab": self.vocab(), "merges": self.merges});
        Ok(TokenizerJson {
            normalizer: Value::Null,
            pre_tokenizer: tokenizer_json::sequence("pretokenizers", parts),
            model,
            post_processor: self.around(false, false),
            decoder: tokenizer_json::byte_level(true, true),
            added: self.added(),
        })
    }

    /// SentencePiece without its normaliser, which GGUF does not carry: spaces become ▁, one is put before.
    fn llama(&self) -> TokenizerJson {
        let score = |i: usize| self.scores.get(i).copied().unwrap_or(0.0);
        let normal = |i: usize| self.types.get(i).is_none_or(|kind| *kind == 1);
        let pieces: Vec<(&str, f32, bool)> =
            self.tokens.iter().enumerate().map(|(i, t)| (t.as_str(), score(i), normal(i))).collect();
        let unknown = self.unk.or(Some(0)).and_then(|id| self.tokens.get(id as usize)).map(String::as_str);
        let prefix = self.add_space_prefix.unwrap_or(true);
        let mut before = vec![json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})];
        let mut after = vec![
            json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}),
            json!({"type": "ByteFallback"}),
            json!({"type": "Fuse"}),
        ];
        if prefix {
            before.insert(0, json!({"type": "Prepend", "prepend": "▁"}));
            after.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
        }
        TokenizerJson {
            normalizer: tokenizer_json::sequence("normalizers", before),
            pre_tokenizer: Value::Null,
            model: spm::bpe_by_score(&pieces, unknown, true),
            post_processor: self.around(true, false),
            decoder: tokenizer_json::sequence("decoders", after),
            added: self.added(),
        }
    }

    /// GGUF marks the beginnings of words by ▁; BERT marks what is inside of them by ##.
    fn bert(&self, place: &str) -> Result<TokenizerJson> {
        let rename = |token: &String| match token.strip_prefix('▁') {
            Some(begin) => begin.to_string(),
            None if token.starts_with('[') && token.ends_with(']') => token.clone(),
            None => format!("##{token}"),
        };
        let names: Vec<String> = self.tokens.iter().map(rename).collect();
        let id = |name: &str| {
            let at = names.iter().position(|n| n == name).map(|i| (i as u32, name.to_string()));
            at.ok_or_else(|| Error::new(place, format!("no `{name}` in the vocabulary"), "is this a BERT?"))
        };
        let (cls, sep, unk) = (id("[CLS]")?, id("[SEP]")?, id("[UNK]")?);
        let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].into_iter().filter_map(|name| id(name).ok());
        let vocab: Map<String, Value> = names.iter().enumerate().map(|(i, n)| (n.clone(), i.into())).collect();
        Ok(TokenizerJson {
            normalizer: json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                               "strip_accents": null, "lowercase": true}),
            pre_tokenizer: json!({"type": "BertPreTokenizer"}),
            model: json!({"type": "WordPiece", "unk_token": unk.1, "continuing_subword_prefix": "##",
                          "max_input_chars_per_word": 100, "vocab": vocab}),
            post_processor: tokenizer_json::bert((&cls.1, cls.0), (&sep.1, sep.0)),
            decoder: json!({"type": "WordPiece", "prefix": "##", "cleanup": true}),
            added: special.map(|(i, name)| (i, name, true)).collect(),
        })
    }

    fn vocab(&self) -> Map<String, Value> {
        self.tokens.iter().enumerate().map(|(i, t)| (t.clone(), i.into())).collect()
    }

    /// Control tokens, and those of the user, are found whole in a text.
    fn added(&self) -> Vec<(u32, String, bool)> {
        let rows = self.tokens.iter().zip(&self.types).enumerate();
        rows.filter(|(_, (_, kind))| matches!(**kind, 2..=4))
            .map(|(i, (t, kind))| (i as u32, t.clone(), *kind != 4))
            .collect()
    }

    fn around(&self, bos: bool, eos: bool) -> Value {
        let token = |id: Option<u32>, wanted: bool| {
            let id = id.filter(|_| wanted)?;
            Some((self.tokens.get(id as usize)?.as_str(), id))
        };
        tokenizer_json::around(
            token(self.bos, self.add_bos.unwrap_or(bos)),
            token(self.eos, self.add_eos.unwrap_or(eos)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(list: &[&str]) -> Vec<String> {
        list.iter().map(|s| s.to_string()).collect()
    }

    #[test]
    fn every_rule_is_a_pattern() {
        for (names, _, _) in RULES {
            let vocab = GgufVocab {
                model: "gpt2".into(),
                pre: Some(names[0].into()),
                tokens: strings(&["a", "b", "ab", "1", "2", "12"]),
                merges: strings(&["a b", "1 2"]),
                ..Default::default()
            };
            assert_eq!(vocab.tokenizer("t").unwrap().encode("ab", true).unwrap().ids, [2], "{names:?}");
        }
    }

    #[test]
    fn smollm_takes_digits_one_by_one() {
        let ids = |pre: &str| {
            let vocab = GgufVocab {
                model: "gpt2".into(),
                pre: Some(pre.into()),
                tokens: strings(&["1", "2", "12"]),
                merges: strings(&["1 2"]),
                ..Default::default()
            };
            vocab.tokenizer("t").map(|t| t.encode("12", false).unwrap().ids)
        };
        assert_eq!(ids("smollm").unwrap(), [0, 1]);
        assert_eq!(ids("gpt-2").unwrap(), [2]);
        let error = ids("smolm").unwrap_err();
        assert!(error.hint.starts_with("did you mean `smollm`?"), "{}", error.hint);
    }

    #[test]
    fn llama_joins_by_score_and_falls_back_to_bytes() {
        let mut tokens = strings(&["<unk>", "<s>", "</s>", "▁", "a", "b", "▁a", "ab", "▁ab"]);
        let mut types = vec![2, 3, 3, 1, 1, 1, 1, 1, 1];
        tokens.extend((0..=255).map(|b| format!("<0x{b:02X}>")));
        types.extend([6; 256]);
        let mut scores = vec![0.0, 0.0, 0.0, -9.0, -9.0, -9.0, -3.0, -1.0, -2.0];
        scores.extend([0.0; 256]);
        let vocab = GgufVocab {
            model: "llama".into(),
            tokens,
            types,
            scores,
            bos: Some(1),
            eos: Some(2),
            unk: Some(0),
            ..Default::default()
        };
        let tokenizer = vocab.tokenizer("t").unwrap();
        assert_eq!(tokenizer.encode("ab è", true).unwrap().pieces, ["<s>", "▁ab", "▁", "<0xC3>", "<0xA8>"]);
        let ids = tokenizer.encode("ab è", true).unwrap().ids;
        assert_eq!(tokenizer.decode(&ids, true).unwrap(), "ab è");
        assert_eq!(tokenizer.special().eos, Some(2));
    }

    #[test]
    fn lists_that_disagree_are_refused() {
        let vocab =
            GgufVocab { model: "llama".into(), tokens: strings(&["a"]), scores: vec![0.0; 2], ..Default::default() };
        assert_eq!(vocab.tokenizer("t").unwrap_err().what, "1 tokens, but 2 scores");
        let vocab = GgufVocab { model: "rwkv".into(), tokens: strings(&["a"]), ..Default::default() };
        assert_eq!(vocab.tokenizer("t").unwrap_err().what, "the tokenizer model `rwkv`");
    }
}
