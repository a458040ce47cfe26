//! Four templates in the manner of known families, beside what transformers makes of them.

use qkv_text::{Chat, Message};
use std::path::PathBuf;

/// Messages and tools are JSON within JSON: they keep the order of their keys.
#[derive(serde::Deserialize)]
struct Row {
    template: String,
    messages: String,
    tools: String,
    generation: bool,
    want: Option<String>,
    error: Option<String>,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests")
}

#[test]
fn prompts_equal_those_of_transformers() {
    let rows: Vec<Row> =
        serde_json::from_str(&std::fs::read_to_string(root().join("data/chat/expected.json")).unwrap()).unwrap();
    assert_eq!(rows.len(), 48);
    for row in rows {
        let source = std::fs::read_to_string(root().join(format!("templates/{}.jinja", row.template))).unwrap();
        let chat = Chat::new(&source).unwrap().token("bos_token", "<s>").token("eos_token", "</s>");
        let got = chat.render_json(&row.messages, row.generation, &[("tools", &row.tools)]);
        match (got, row.want, row.error) {
            (Ok(got), Some(want), _) => assert_eq!(got, want, "{} {}", row.template, row.messages),
            (Err(got), None, Some(want)) => assert_eq!(got.what, want),
            (got, want, error) => panic!("{}: {got:?}, want {want:?} or {error:?}", row.template),
        }
    }
}

#[test]
fn templates_come_from_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let gpt2 = root().join("data/gpt2");
    for name in ["vocab.json", "merges.txt"] {
        std::fs::copy(gpt2.join(name), dir.path().join(name)).unwrap();
    }
    let config = |chat: &str| {
        let text = format!(r#"{{"eos_token": "<|endoftext|>", "chat_template": {chat}}}"#);
        std::fs::write(dir.path().join("tokenizer_config.json"), text).unwrap();
    };
    let say = |name: Option<&str>| {
        let tokenizer = qkv_text::Tokenizer::load(dir.path()).unwrap();
        Chat::of(&tokenizer, name)?.render(&[Message::new("user", "x")], false)
    };
    config(r#""one {{ eos_token }}""#);
    assert_eq!(say(None).unwrap(), "one <|endoftext|>");
    config(r#"[{"name": "default", "template": "two"}, {"name": "tool_use", "template": "three"}]"#);
    assert_eq!((say(None).unwrap(), say(Some("tool_use")).unwrap()), ("two".to_string(), "three".to_string()));
    assert_eq!(say(Some("rag")).unwrap_err().hint, "there are: default, tool_use");
    std::fs::write(dir.path().join("chat_template.jinja"), "four").unwrap();
    assert_eq!(say(None).unwrap(), "four");
}
