use super::draw::Draw; use super::example::Example;
pub(super) fn pair(_: &mut Draw, right: String) -> Example { Example::Text(right) }
