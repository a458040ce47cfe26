//! JSON objects in their own order, in which no name may come twice.
//!
//! A plain map would keep the last of two equal names and say nothing.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// The pairs of an object, as written.
pub(crate) struct Pairs<V>(pub(crate) Vec<(String, V)>);

impl<V> Pairs<V> {
    /// A name that comes more than once, if any does.
    pub(crate) fn twice(&self) -> Option<&str> {
        twice(self.0.iter().map(|(name, _)| name.as_str()))
    }
}

/// A name that comes more than once, if any does.
pub(crate) fn twice<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Pairs<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Object<V> {
            type Value = Pairs<V>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<V>, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Object(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_kept_and_doubles_are_seen() {
        let read = |text| serde_json::from_str::<Pairs<u8>>(text).unwrap();
        assert_eq!(read(r#"{"z":1,"a":2}"#).0, [("z".to_owned(), 1), ("a".to_owned(), 2)]);
        assert_eq!(read(r#"{"z":1,"a":2}"#).twice(), None);
        assert_eq!(read(r#"{"z":1,"a":2,"z":1}"#).twice(), Some("z"));
    }
}
