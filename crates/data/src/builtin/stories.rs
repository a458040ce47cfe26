use super::draw::Draw; use super::example::Example;
pub(super) const LABELS: [&str; 0] = []; pub(super) const TAGS: [&str; 0] = [];
pub(super) fn example(_: &mut Draw) -> Example { Example::Text("x".into()) }
