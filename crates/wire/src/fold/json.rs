//! The text of JSON, read and written without looking into what need not be looked into.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::node::Node;

/// How many members an object may have that is looked into. Answers have a dozen; searching is linear.
pub(super) const MEMBERS: usize = 256;

/// The members of an object, as they stand in its text. An object that has a key twice is not read: what it means
/// is anyone's guess.
pub(crate) struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Members<'a> {
    pub(crate) fn read(text: &'a [u8]) -> Option<Members<'a>> {
        serde_json::from_slice(text).ok()
    }

    pub(crate) fn of(raw: &'a RawValue) -> Option<Members<'a>> {
        serde_json::from_str(raw.get()).ok()
    }

    /// The value of a key; none where it is missing or `null`.
    pub(crate) fn get(&self, key: &str) -> Option<&'a RawValue> {
        self.any(key).filter(|raw| !is_null(raw))
    }

    /// The value of a key, `null` too.
    pub(super) fn any(&self, key: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, raw)| *raw)
    }

    /// A string that is not empty.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        text(self.get(key)?).filter(|text| !text.is_empty())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(key, raw)| (&**key, *raw))
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members<'de>, D::Error> {
        #[derive(Deserialize)]
        struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Members(Vec::new());
                while let Some((Name(name), raw)) = map.next_entry()? {
                    if members.any(&name).is_some() || members.0.len() == MEMBERS {
                        return Err(A::Error::custom("a key is there twice, or there are too many"));
                    }
                    members.0.push((name, raw));
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

/// The elements of an array.
pub(crate) fn elements(raw: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(raw.get()).ok()
}

/// What a string says.
pub(super) fn text(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

/// A whole number.
pub(super) fn number(raw: &RawValue) -> Option<usize> {
    raw.get().parse().ok()
}

pub(crate) fn is_null(raw: &RawValue) -> bool {
    raw.get() == "null"
}

/// Whether a value adds nothing to what is there.
pub(crate) fn is_blank(raw: &RawValue) -> bool {
    matches!(raw.get(), "null" | "\"\"" | "[]" | "{}")
}

pub(super) fn is_text(raw: &RawValue) -> bool {
    raw.get().starts_with('"')
}

/// Writes an array.
pub(crate) fn array<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    write: impl Fn(T, &mut Vec<u8>),
) {
    out.push(b'[');
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(b']');
}

/// An object that is being written.
pub(super) struct Object(Vec<u8>);

impl Object {
    pub(super) fn new() -> Object {
        Object(vec![b'{'])
    }

    fn key(&mut self, key: &str) {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        self.0.extend_from_slice(quoted(key).as_bytes());
        self.0.push(b':');
    }

    /// A member whose value is JSON already.
    pub(super) fn json(mut self, key: &str, value: impl AsRef<[u8]>) -> Object {
        self.key(key);
        self.0.extend_from_slice(value.as_ref());
        self
    }

    pub(super) fn raw(self, key: &str, value: &RawValue) -> Object {
        self.json(key, value.get())
    }

    pub(super) fn node(mut self, key: &str, value: &Node) -> Object {
        self.key(key);
        value.write(&mut self.0);
        self
    }

    pub(super) fn text(self, key: &str, value: &str) -> Object {
        self.json(key, quoted(value))
    }

    pub(super) fn number(self, key: &str, value: usize) -> Object {
        self.json(key, value.to_string())
    }

    pub(super) fn end(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }
}

/// A string as JSON.
pub(super) fn quoted(text: &str) -> String {
    // Writing a string into memory has no way to fail.
    serde_json::to_string(text).unwrap_or_default()
}
