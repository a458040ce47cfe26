//! A tokenizer as the files that Python's transformers loads: `tokenizer.json`, `tokenizer_config.json`,
//! `special_tokens_map.json`; Marian keeps its own files.

use crate::tokenizer::{Tokenizer, TokenizerEngine};
use crate::validate::guard;
use qkv_base::{Error, Result};
use serde_json::{Map, Value, json};
use std::path::Path;

impl Tokenizer {
    /// The `tokenizer.json`, the same bytes for the same tokenizer. Marian has none.
    pub fn to_json(&self) -> Result<String> {
        match &self.engine {
            TokenizerEngine::Plain(engine) => guard(&self.place, || engine.to_string(true)),
            TokenizerEngine::Marian(_) => {
                let what = "Marian's tokenizer is two SentencePiece models, not a tokenizer.json";
                Err(Error::new(&self.place, what, "save it to a directory instead"))
            }
        }
    }

    /// Writes the tokenizer into a directory, which is made if it is not there.
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<()> {
        let dir = dir.as_ref();
        let fail = |path: &Path, e: std::io::Error| {
            Error::write(path.display().to_string(), &e, "check that the directory can be written to")
        };
        std::fs::create_dir_all(dir).map_err(|e| fail(dir, e))?;
        for (name, bytes) in self.files()? {
            let path = dir.join(name);
            std::fs::write(&path, bytes).map_err(|e| fail(&path, e))?;
        }
        Ok(())
    }

    /// Every file by name.
    pub fn files(&self) -> Result<Vec<(&'static str, Vec<u8>)>> {
        let pretty = |map: &Map<String, Value>| format!("{:#}\n", Value::from(map.clone())).into_bytes();
        let mut files = match &self.engine {
            TokenizerEngine::Plain(_) => vec![("tokenizer.json", self.to_json()?.into_bytes())],
            TokenizerEngine::Marian(marian) => marian.files.clone(),
        };
        files.push(("tokenizer_config.json", pretty(&self.config())));
        files.push(("special_tokens_map.json", pretty(&self.roles())));
        Ok(files)
    }

    /// `"eos_token": "</s>"` for each role that is played.
    fn roles(&self) -> Map<String, Value> {
        let role = |(role, id): (&str, Option<u32>)| Some((format!("{role}_token"), self.piece(id?)?.into()));
        self.special.roles().into_iter().filter_map(role).collect()
    }

    fn config(&self) -> Map<String, Value> {
        let class = match &self.engine {
            // The class that takes tokenizer.json as it is, whatever the family.
            TokenizerEngine::Plain(_) => "PreTrainedTokenizerFast",
            TokenizerEngine::Marian(_) => "MarianTokenizer",
        };
        let mut config = self.roles();
        config.insert("tokenizer_class".into(), class.into());
        // Decoding must give back the text, not a prettier one.
        config.insert("clean_up_tokenization_spaces".into(), false.into());
        if let TokenizerEngine::Marian(marian) = &self.engine {
            let separate = marian.files.iter().any(|(name, _)| *name == "target_vocab.json");
            config.insert("separate_vocabs".into(), separate.into());
        }
        let chat: Value = match self.chats.as_slice() {
            [] => return config,
            [(name, template)] if name == "default" => template.as_str().into(),
            many => many.iter().map(|(name, t)| json!({"name": name, "template": t})).collect(),
        };
        config.insert("chat_template".into(), chat);
        config
    }
}
