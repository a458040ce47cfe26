//! Templates that ask for all memory, under the allocator that counts: the caller gets an error and the process lives.

use qkv_text::{Chat, Message};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: qkv_kernels::alloc::Reuse = qkv_kernels::alloc::Reuse::new();

#[test]
fn templates_that_take_all_memory_are_stopped() {
    let doubling = "{% set ns = namespace(x='xxxxxxxxxxxxxxxx') %}{% for i in range(64) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}";
    let straight = format!("{{% set x = 'xxxxxxxxxxxxxxxx' %}}{}", "{% set x = x ~ x %}".repeat(60));
    let replaced = "{% set a = 'x' * 100000 %}{% set b = a | replace('x', a) %}{{ b | length }}";
    let listed = "{% set ns = namespace(x=[1]) %}{% for i in range(64) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x | list | length }}";
    let joined = "{% set a = 'x' * 100000 %}{{ range(99999) | map('replace', '1', a) | join(a) | length }}";
    for template in [doubling, straight.as_str(), replaced, listed, joined] {
        let start = Instant::now();
        let chat = Chat::new(template).expect("it can be read");
        let said = chat.render(&[Message::new("user", "x")], false);
        assert!(start.elapsed() < Duration::from_secs(15), "{template}");
        if let Err(error) = said {
            println!("{error}");
            continue;
        }
        panic!("{template}: {} bytes", said.map(|s| s.len()).unwrap_or_default());
    }
    // The rest of the process goes on.
    let plain = Chat::new("{% for m in messages %}{{ m.content }}{% endfor %}").expect("a template");
    assert_eq!(plain.render(&[Message::new("user", "hi")], false).expect("text"), "hi");
}
