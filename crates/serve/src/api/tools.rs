//! Tools that a model may call: they are told to it by its own chat template, and calls are found in what it says.
//!
//! How a call is written depends on what the model was trained with, which its template shows:
//!
//! | style | a call |
//! |---|---|
//! | tagged (Hermes, Qwen) | `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, any number of them |
//! | listed (Mistral) | `[TOOL_CALLS] [{"name": …, "arguments": {…}}, …]` |
//! | Llama 3 | `{"name": …, "parameters": {…}}` as the whole answer |
//! | bare | `{"name": …, "arguments": {…}}` as the whole answer |
//!
//! Where `tool_choice` requires a call, the answer is held to the schemas of the tools, as by `response_format`.

use crate::app::App;
use crate::error::{ApiError, ApiResult};
use crate::fields::{Fields, too_many};
use crate::served::Served;
use qkv_decode::{Chain, schema};
use serde_json::{Value, json};

/// The most tools of a request.
const MOST: usize = 128;

/// How a model writes calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStyle {
    /// `<tool_call>…</tool_call>`
    Tagged,
    /// `[TOOL_CALLS] […]`
    Listed,
    /// JSON with `parameters`
    Llama,
    /// JSON with `arguments`
    Bare,
}

impl CallStyle {
    /// The style that a chat template shows.
    fn of(template: &str) -> Self {
        match template {
            t if t.contains("<tool_call>") => Self::Tagged,
            t if t.contains("[TOOL_CALLS]") => Self::Listed,
            t if t.contains("<|python_tag|>") || t.contains("\"parameters\"") => Self::Llama,
            _ => Self::Bare,
        }
    }

    /// What stands before the first call; none where a call is the whole answer.
    fn mark(self) -> Option<&'static str> {
        match self {
            Self::Tagged => Some("<tool_call>"),
            Self::Listed => Some("[TOOL_CALLS]"),
            Self::Llama | Self::Bare => None,
        }
    }

    /// What stands before and behind the arguments of a call.
    fn around(self, name: &str) -> (String, String) {
        let name = Value::from(name);
        match self {
            Self::Tagged => (format!("<tool_call>\n{{\"name\": {name}, \"arguments\": "), "}\n</tool_call>".into()),
            Self::Listed => (format!("[TOOL_CALLS] [{{\"name\": {name}, \"arguments\": "), "}]".into()),
            Self::Llama => (format!("{{\"name\": {name}, \"parameters\": "), "}".into()),
            Self::Bare => (format!("{{\"name\": {name}, \"arguments\": "), "}".into()),
        }
    }
}

/// The tools of a request.
#[derive(Clone, Debug)]
pub struct Tools {
    /// as they were given, for the template
    pub json: Value,
    style: CallStyle,
    /// names, and schemas of their arguments
    known: Vec<(String, Value)>,
    /// those of which one must be called
    required: Vec<String>,
}

/// A call that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// which tool
    pub name: String,
    /// the arguments as JSON
    pub arguments: String,
}

impl Tools {
    /// Takes `tools` and `tool_choice`; none where no tool may be called.
    pub fn of(fields: &Fields, served: &Served) -> ApiResult<Option<Self>> {
        let wrong = |what: String| ApiError::field("tools", what);
        let list = match fields.value("tools") {
            None => vec![],
            Some(Value::Array(list)) if list.len() > MOST => return Err(too_many("tools", list.len(), MOST)),
            Some(Value::Array(list)) => list,
            Some(_) => return Err(wrong("must be a list of functions".into())),
        };
        fields.flag("parallel_tool_calls")?;
        let mut known: Vec<(String, Value)> = vec![];
        for (at, tool) in list.iter().enumerate() {
            let function = match tool["type"].as_str() {
                None | Some("function") => &tool["function"],
                Some(_) => return Err(wrong(format!("has at {at} a type other than `function`"))),
            };
            let good = |name: &&str| {
                (1..=64).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
            };
            let name = function["name"].as_str().filter(good).ok_or_else(|| {
                wrong(format!("has at {at} no `function.name` of 1 to 64 letters, digits, `_`, `-` and `.`"))
            })?;
            if known.iter().any(|(n, _)| n == name) {
                return Err(wrong(format!("has two functions `{name}`")));
            }
            let parameters = match &function["parameters"] {
                Value::Null => json!({"type": "object"}),
                parameters @ Value::Object(_) => parameters.clone(),
                _ => return Err(wrong(format!("has parameters of `{name}` that are no JSON schema"))),
            };
            known.push((name.to_string(), parameters));
        }
        let all = || known.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let choice = |what: String| ApiError::field("tool_choice", what);
        let required = match fields.value("tool_choice") {
            None => vec![],
            Some(Value::String(word)) => match word.as_str() {
                "none" => return Ok(None),
                "auto" => vec![],
                "required" if known.is_empty() => {
                    return Err(choice("requires a call, but there are no `tools`".into()));
                }
                "required" => all(),
                _ => return Err(choice("must be \"none\", \"auto\", \"required\" or a function".into())),
            },
            Some(Value::Object(one)) => {
                let name = one.get("function").and_then(|f| f["name"].as_str());
                let name = name.ok_or_else(|| {
                    choice("must name a function: {\"type\": \"function\", \"function\": {\"name\": …}}".into())
                })?;
                if !known.iter().any(|(n, _)| n == name) {
                    return Err(choice("names a function that is none of `tools`".into()));
                }
                vec![name.to_string()]
            }
            Some(_) => return Err(choice("must be a word or an object".into())),
        };
        if known.is_empty() {
            return Ok(None);
        }
        let template = served.model.maybe_tokenizer().and_then(|t| t.chat_template(None)).unwrap_or_default();
        if !template.contains("tools") {
            let what = "is not supported here: this model's chat template knows no tools";
            return Err(ApiError::field("tools", what).code("unsupported_parameter"));
        }
        let style = CallStyle::of(template);
        Ok(Some(Self { json: list.into(), style, known, required }))
    }

    /// Holds answers to a call, where one is required.
    pub fn hold(&self, chain: &mut Chain, served: &Served, ends: &[u32], has_form: bool) -> ApiResult<()> {
        if self.required.is_empty() {
            return Ok(());
        }
        if has_form {
            return Err(ApiError::field("tool_choice", "requires a call, which the form that is asked for is not"));
        }
        if ends.is_empty() {
            return Err(ApiError::field("tool_choice", "wants a model with an end token, and no `ignore_eos`"));
        }
        let tokens = served.model.token_bytes().map_err(|e| served.error(e))?;
        let part = |(name, schema): &(String, Value)| {
            let (before, after) = self.style.around(name);
            (before, schema.clone(), after)
        };
        let parts: Vec<_> = self.known.iter().filter(|(name, _)| self.required.contains(name)).map(part).collect();
        chain.steps.insert(0, schema::one_of(&parts, tokens).map_err(|e| served.error(e).of("tools"))?);
        Ok(())
    }

    /// The calls in an answer, and the text beside them; no calls where what looks like one is none.
    pub fn find(&self, text: &str) -> (String, Vec<ToolCall>) {
        let calls = |json: &str| -> Option<Vec<ToolCall>> {
            let value: Value = serde_json::from_str(json.trim()).ok()?;
            let list = match value {
                Value::Array(list) => list,
                one => vec![one],
            };
            list.iter().map(|call| self.call(call)).collect()
        };
        let (mut beside, mut found) = (String::new(), vec![]);
        match self.style {
            CallStyle::Tagged => {
                let mut rest = text;
                while let Some((before, after)) = rest.split_once("<tool_call>") {
                    let (inner, behind) = after.split_once("</tool_call>").unwrap_or((after, ""));
                    match calls(inner) {
                        Some(more) => found.extend(more),
                        None => return (text.to_string(), vec![]),
                    }
                    beside.push_str(before);
                    rest = behind;
                }
                beside.push_str(rest);
            }
            CallStyle::Listed => match text.split_once("[TOOL_CALLS]").map(|(before, after)| (before, calls(after))) {
                Some((before, Some(more))) => (beside, found) = (before.into(), more),
                _ => return (text.to_string(), vec![]),
            },
            CallStyle::Llama | CallStyle::Bare => match calls(text.trim().trim_start_matches("<|python_tag|>")) {
                Some(more) => found = more,
                None => return (text.to_string(), vec![]),
            },
        }
        (if found.is_empty() { text.to_string() } else { beside.trim().to_string() }, found)
    }

    fn call(&self, value: &Value) -> Option<ToolCall> {
        let name = value["name"].as_str().filter(|name| self.known.iter().any(|(n, _)| n == name))?;
        let arguments = value.get("arguments").or(value.get("parameters"))?;
        let arguments = match arguments {
            Value::String(text) => text.clone(), // some models write them as a text within
            object => object.to_string(),
        };
        Some(ToolCall { name: name.into(), arguments })
    }

    /// How much of a text that is still being written is certain to stand beside calls, and can be told.
    pub fn certain(&self, text: &str) -> usize {
        let Some(mark) = self.style.mark() else {
            let begins = text.trim_start().chars().next();
            return if begins.is_none_or(|c| "{[<".contains(c)) { 0 } else { text.len() };
        };
        if let Some(at) = text.find(mark) {
            return at;
        }
        let open = (1..mark.len()).rev().find(|n| text.ends_with(&mark[..*n])).unwrap_or(0);
        text.len() - open
    }
}

/// Calls in OpenAI's shape; those of a stream are numbered.
pub fn calls(app: &App, found: &[ToolCall], numbered: bool) -> Value {
    let one = |(index, call): (usize, &ToolCall)| {
        let mut value = json!({"id": app.id("call"), "type": "function",
            "function": {"name": call.name, "arguments": call.arguments}});
        if numbered {
            value["index"] = json!(index);
        }
        value
    };
    found.iter().enumerate().map(one).collect()
}

/// A message of an earlier turn as templates expect it: arguments of calls as JSON and not as a text of it.
pub fn plain_calls(message: &mut serde_json::Map<String, Value>) {
    let Some(Value::Array(list)) = message.get_mut("tool_calls") else { return };
    for call in list {
        let Some(arguments) = call.pointer_mut("/function/arguments") else { continue };
        if let Some(object) = arguments.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok()) {
            *arguments = object;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(style: CallStyle) -> Tools {
        let known = vec![("add".to_string(), json!({"type": "object"})), ("now".to_string(), json!({}))];
        Tools { json: json!([]), style, known, required: vec![] }
    }

    fn call(name: &str, arguments: &str) -> ToolCall {
        ToolCall { name: name.into(), arguments: arguments.into() }
    }

    #[test]
    fn calls_are_found_in_every_style() {
        let tagged = tools(CallStyle::Tagged);
        let text = "Let me see.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call><tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>";
        assert_eq!(tagged.find(text), ("Let me see.".into(), vec![call("add", "{\"a\":1}"), call("now", "{}")]));
        let listed = "[TOOL_CALLS] [{\"name\": \"add\", \"arguments\": {\"a\": 1}}]";
        assert_eq!(tools(CallStyle::Listed).find(listed).1, [call("add", "{\"a\":1}")]);
        let llama = "{\"name\": \"add\", \"parameters\": {\"a\": 1}}";
        assert_eq!(tools(CallStyle::Llama).find(llama), (String::new(), vec![call("add", "{\"a\":1}")]));
    }

    #[test]
    fn what_is_no_call_stays_a_text() {
        for text in ["just a text", "<tool_call>{\"name\": \"rob\", \"arguments\": {}}</tool_call>", "<tool_call>{\"na"]
        {
            assert_eq!(tools(CallStyle::Tagged).find(text), (text.to_string(), vec![]));
        }
        assert!(tools(CallStyle::Bare).find("{\"name\": \"add\"}").1.is_empty());
    }

    #[test]
    fn a_stream_holds_back_what_may_become_a_call() {
        let tagged = tools(CallStyle::Tagged);
        assert_eq!(tagged.certain("hello"), 5);
        assert_eq!(tagged.certain("hello <tool"), 6);
        assert_eq!(tagged.certain("hello <tool_call>{"), 6);
        assert_eq!(tagged.certain("a < b"), 5);
        let bare = tools(CallStyle::Bare);
        assert_eq!((bare.certain(" {\"n"), bare.certain("hi {"), bare.certain("")), (0, 4, 0));
    }
}
