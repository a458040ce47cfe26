//! A conversation: the whole of it is rendered by the model's chat template each turn; when it outgrows the context, its
//! oldest turns are left out, and that is said.

use crate::batches::Listener;
use crate::generate::{Generation, Hear};
use qkv_base::{Error, Result};
use qkv_model::CausalLm;
use qkv_text::{Chat, Message};

/// A conversation with a model that has a chat template.
pub struct Conversation<'a> {
    /// how answers are written; `otherwise` is the most tokens of one
    pub generation: Generation<'a>,
    /// who the model is
    pub system: Option<String>,
    /// what was said, by turns
    pub messages: Vec<Message>,
    chat: Chat,
}

impl<'a> Conversation<'a> {
    /// A new one, with the template of this name where the model has several.
    pub fn new(generation: Generation<'a>, template: Option<&str>) -> Result<Self> {
        let tokenizer = generation.model.tokenizer().map_err(|e| {
            let hint = "choose a model that was made for chats, or continue ids with `qkv generate MODEL --ids 5,6,7`";
            Error::new(e.place, format!("a chat needs a tokenizer with a chat template: {}", e.what), hint)
        })?;
        let chat = Chat::of(tokenizer, template)?;
        Ok(Self { generation, system: None, messages: vec![], chat })
    }

    /// One turn: what is said, and the answer, which is also told to `hear` as it becomes certain.
    pub fn turn(&mut self, text: &str, hear: Hear, listener: &mut dyn Listener) -> Result<String> {
        self.messages.push(Message::new("user", text));
        let prompt = self.prompt(listener)?;
        let number = self.messages.len() as u64;
        let (answers, _) = self.generation.run(&[prompt], number, hear, &|| listener.is_cancelled())?;
        let answer = answers.into_iter().flatten().next().and_then(|a| a.text).unwrap_or_default();
        self.messages.push(Message::new("assistant", answer.clone()));
        Ok(answer)
    }

    /// Takes back the last turn.
    pub fn undo(&mut self) {
        self.messages.truncate(self.messages.len().saturating_sub(2));
    }

    /// The conversation as ids, without its oldest turns where it is too long.
    fn prompt(&mut self, listener: &mut dyn Listener) -> Result<Vec<u32>> {
        let model = self.generation.model;
        let context = CausalLm::context(&model.network.model).unwrap_or(usize::MAX);
        let room = context.saturating_sub(self.generation.otherwise.min(context / 2)).max(1);
        loop {
            let system = self.system.iter().map(|s| Message::new("system", s.clone()));
            let all: Vec<Message> = system.chain(self.messages.iter().cloned()).collect();
            // The template has put the special tokens into the text itself.
            let ids = model.tokenizer()?.encode(&self.chat.render(&all, true)?, false)?.ids;
            if ids.len() <= room {
                return Ok(ids);
            }
            if self.messages.len() < 3 {
                let what = format!("is {} tokens long, but the context has room for {room}", ids.len());
                self.messages.clear();
                return Err(Error::new("this turn", what, "say less at a time"));
            }
            listener.note("the conversation outgrows the context; its oldest turn is left out");
            self.messages.drain(..2);
        }
    }
}
