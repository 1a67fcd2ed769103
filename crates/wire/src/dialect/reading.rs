//! Reading JSON that nobody promised us: only what is needed, and a field of an unexpected type is a missing one.
//!
//! A struct of [`Raw`] fields costs one pass and no copies. [`Key`] answers most questions without even that: a
//! quote inside a JSON string is escaped, so a quoted name that a colon follows can only be a key.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::error::Category;
use serde_json::value::RawValue;

use crate::sse::Event;
use crate::watch::Watch;

/// A value as it stands in the text; none for a missing one and for `null`.
pub(crate) type Raw<'a> = Option<&'a RawValue>;

/// Reads one whole JSON text. What is no JSON at all is noted as garbled.
pub(super) fn whole<'a, T: Deserialize<'a>>(text: &'a [u8], watch: &mut Watch) -> Option<T> {
    match serde_json::from_slice(text) {
        Ok(value) => Some(value),
        Err(error) => {
            // Other errors are about what the text says (a key there twice), not about its form.
            watch.garbled |= matches!(error.classify(), Category::Syntax | Category::Eof);
            None
        }
    }
}

/// Reads a part of a text.
pub(crate) fn part<'a, T: Deserialize<'a>>(raw: Raw<'a>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

/// A string that is not empty.
pub(crate) fn text(raw: Raw<'_>) -> Option<String> {
    part::<String>(raw).filter(|text| !text.is_empty())
}

/// A count; some servers write whole numbers as `12.0`.
pub(super) fn count(raw: Raw<'_>) -> Option<u64> {
    let digits = raw?.get();
    digits.parse().ok().or_else(|| digits.parse::<f64>().ok().filter(|n| *n >= 0.0).map(|n| n as u64))
}

/// Whether the value is an object.
pub(super) fn is_object(raw: Raw<'_>) -> bool {
    raw.is_some_and(|raw| raw.get().starts_with('{'))
}

/// Whether the text could be a JSON object, by its ends alone.
#[inline]
pub(super) fn could_be_object(text: &[u8]) -> bool {
    matches!(text, [b'{', .., b'}'])
}

/// The same for a text of which only both ends are there.
pub(super) fn could_be_torn_object(head: &[u8], tail: &[u8]) -> bool {
    head.trim_ascii_start().starts_with(b"{") && tail.trim_ascii_end().ends_with(b"}")
}

/// The kind of an event, in protocols that name them: the name, or the `type` in the data where there is none.
/// Empty where neither is there.
#[inline]
pub(super) fn kind_of<'a>(event: &Event<'a>, data: &[u8], watch: &mut Watch) -> Cow<'a, [u8]> {
    #[derive(Deserialize)]
    struct Typed<'a> {
        #[serde(borrow, rename = "type")]
        kind: Raw<'a>,
    }
    match event.name() {
        Some(name) => Cow::Borrowed(name),
        None => {
            let kind = whole::<Typed<'_>>(data, watch).and_then(|typed| text(typed.kind));
            Cow::Owned(kind.unwrap_or_default().into_bytes())
        }
    }
}

/// A key of a JSON object, to be looked for in a text that is not parsed.
pub(super) struct Key(LazyLock<Finder<'static>>);

/// Names a key; the quotes belong to the name.
macro_rules! key {
    ($quoted:literal) => {
        $crate::dialect::reading::Key::new(|| memchr::memmem::Finder::new($quoted))
    };
}
pub(super) use key;

/// What a text has under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The key is nowhere.
    Missing,
    /// Wherever it is, its value is `null`.
    Null,
    /// Somewhere it has a value.
    Set,
}

impl Key {
    pub(super) const fn new(make: fn() -> Finder<'static>) -> Key {
        Key(LazyLock::new(make))
    }

    /// What the text has under this key, at any depth.
    #[inline]
    pub(super) fn state(&self, text: &[u8]) -> State {
        let mut rest = text;
        let mut state = State::Missing;
        while let Some(at) = self.0.find(rest) {
            rest = &rest[at + self.0.needle().len()..];
            match value(rest) {
                Some([b'n', ..]) => state = State::Null,
                Some(_) => return State::Set,
                None => {}
            }
        }
        state
    }

    /// The first value of the key that is whole and not `null`.
    pub(super) fn first<'a>(&self, text: &'a [u8]) -> Raw<'a> {
        self.values(text).next()
    }

    /// The last value of the key that is whole and not `null`.
    pub(super) fn last<'a>(&self, text: &'a [u8]) -> Raw<'a> {
        self.values(text).last()
    }

    fn values<'a>(&self, text: &'a [u8]) -> impl Iterator<Item = &'a RawValue> {
        let length = self.0.needle().len();
        self.0.find_iter(text).filter_map(move |at| {
            let mut values = serde_json::Deserializer::from_slice(value(&text[at + length..])?).into_iter();
            values.next()?.ok().filter(|raw: &&RawValue| raw.get() != "null")
        })
    }

    /// The last string under the key, as it stands between its quotes, where it has no escapes.
    pub(super) fn last_name<'a>(&self, text: &'a [u8]) -> Option<&'a str> {
        self.0.find_iter(text).filter_map(|at| name(value(&text[at + self.0.needle().len()..])?)).last()
    }

    /// The first such string.
    pub(super) fn first_name<'a>(&self, text: &'a [u8]) -> Option<&'a str> {
        self.0.find_iter(text).find_map(|at| name(value(&text[at + self.0.needle().len()..])?))
    }

    /// The last object under the key, by its braces: for objects of counts, in whose strings nobody expects any.
    pub(super) fn last_object<'a>(&self, text: &'a [u8]) -> Option<&'a [u8]> {
        self.0.find_iter(text).filter_map(|at| braced(value(&text[at + self.0.needle().len()..])?)).last()
    }

    /// The first value of the key, where it is a plain number.
    #[inline]
    pub(super) fn number(&self, text: &[u8]) -> Option<u64> {
        number(value(&text[self.0.find(text)? + self.0.needle().len()..])?)
    }
}

/// The members of an object whose values are plain numbers, at any depth, by their names: for objects of counts.
pub(super) fn numbers(text: &[u8]) -> impl Iterator<Item = (&[u8], u64)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let from = &rest[memchr::memchr(b'"', rest)? + 1..];
            let key = &from[..memchr::memchr(b'"', from)?];
            rest = &from[key.len() + 1..];
            if let Some(number) = value(rest).and_then(number) {
                return Some((key, number));
            }
        }
    })
}

/// A plain number, from the text that begins with it.
#[inline]
fn number(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).take(19);
    let number = digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
    text.first()?.is_ascii_digit().then_some(number)
}

/// A string without escapes that is not empty, from the text that begins with it.
fn name(text: &[u8]) -> Option<&str> {
    let text = text.strip_prefix(b"\"")?;
    let plain = &text[..memchr::memchr2(b'"', b'\\', text)?];
    let ends = text[plain.len()] == b'"' && !plain.is_empty();
    std::str::from_utf8(plain).ok().filter(|_| ends)
}

/// An object with all that is nested in it, from the text that begins with it.
fn braced(text: &[u8]) -> Option<&[u8]> {
    let mut depth = 0_usize;
    for at in memchr::memchr2_iter(b'{', b'}', text) {
        if text[at] == b'{' {
            depth += 1;
        } else {
            depth = depth.checked_sub(1)?;
            if depth == 0 {
                return text.starts_with(b"{").then(|| &text[..=at]);
            }
        }
    }
    None
}

/// What follows a key: the text from the first byte of its value on. None where no colon follows.
#[inline]
pub(super) fn value(after: &[u8]) -> Option<&[u8]> {
    match after {
        [b':', b'!'..=b'~', ..] => Some(&after[1..]),
        _ => {
            let value = after.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
            (!value.is_empty()).then_some(value)
        }
    }
}

/// The number of elements of an array.
pub(super) fn elements(raw: Raw<'_>) -> Option<usize> {
    part::<Vec<IgnoredAny>>(raw).map(|elements| elements.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    static USAGE: Key = key!("\"usage\"");
    static SEQUENCE: Key = key!("\"sequence_number\"");

    #[test]
    fn a_key_is_told_from_the_same_word_in_a_string() {
        assert_eq!(USAGE.state(br#"{"usage":{"a":1}}"#), State::Set);
        assert_eq!(USAGE.state(b"{\"usage\" :\n {\"a\":1}}"), State::Set);
        assert_eq!(USAGE.state(br#"{"usage":null,"x":{"usage":{}}}"#), State::Set);
        assert_eq!(USAGE.state(br#"{"usage": null}"#), State::Null);
        assert_eq!(USAGE.state(br#"{"content":"usage"}"#), State::Missing);
        assert_eq!(USAGE.state(br#"{"content":"say \"usage\":{}"}"#), State::Missing);
        assert_eq!(USAGE.state(br#"{"usage":"#), State::Missing);
    }

    #[test]
    fn the_last_whole_value_of_a_key_can_be_had_from_a_torn_text() {
        let torn = br#"torn":1,"usage":{"a":1},"tools":[{"usage":null}],"usage":{"a":2},"usage":{"a"#;
        assert_eq!(USAGE.last(torn).unwrap().get(), r#"{"a":2}"#);
        assert_eq!(USAGE.first(torn).unwrap().get(), r#"{"a":1}"#);
    }

    #[test]
    fn names_and_objects_are_read_without_parsing() {
        static MODEL: Key = key!("\"model\"");
        let text = br#"{"model" : "m-1","x":{"model":"m\u002d2"},"usage":{"a":{"b":1}},"y":{"usage":null}}"#;
        assert_eq!(MODEL.first_name(text), Some("m-1"));
        assert_eq!(MODEL.last_name(text), Some("m-1"));
        assert_eq!(USAGE.last_object(text), Some(&br#"{"a":{"b":1}}"#[..]));
        assert_eq!(USAGE.last_object(br#"{"usage":{"a":1"#), None);
        assert_eq!(USAGE.last_object(br#"{"usage":[{"a":1}]}"#), None);
        assert_eq!(MODEL.first_name(br#"{"model":""}"#), None);
        assert_eq!(MODEL.first_name(br#"{"model":7}"#), None);
    }

    #[test]
    fn numbers_are_read_without_parsing() {
        assert_eq!(SEQUENCE.number(br#"{"sequence_number": 41,"x":1}"#), Some(41));
        assert_eq!(SEQUENCE.number(br#"{"sequence_number":"41"}"#), None);
        let endless = format!("{{\"sequence_number\":{}}}", "9".repeat(40));
        assert!(SEQUENCE.number(endless.as_bytes()).is_some());
    }

    #[test]
    fn the_numbers_of_an_object_are_found_by_their_names() {
        let text = br#"{"a":1, "tier":"b", "c" : 2,"d":{"e":3,"f":null},"g":-4,"h":[5],"i":6"#;
        let read: Vec<_> = numbers(text).map(|(key, n)| (std::str::from_utf8(key).unwrap(), n)).collect();
        assert_eq!(read, [("a", 1), ("c", 2), ("e", 3), ("i", 6)]);
        assert_eq!(numbers(b"{\"torn").count(), 0);
    }

    #[test]
    fn counts_of_any_number_type_are_read_and_negative_ones_are_not() {
        let read = |text: &'static str| count(Some(serde_json::from_str(text).unwrap()));
        assert_eq!(read("12"), Some(12));
        assert_eq!(read("12.0"), Some(12));
        assert_eq!(read("-3"), None);
        assert_eq!(read("\"12\""), None);
    }
}
