//! Fields of JSON as they are read from a request.
//!
//! What is read is borrowed where it stands without escapes. A wrong type is [`Unfit`] and names the field; whoever
//! reads the object around it puts the path before the name.

use std::borrow::Cow;
use std::fmt::Display;

use serde_json::value::RawValue;

use crate::fold::json::{self, Members};
use crate::translate::Unfit;
use crate::translate::canon::{Json, Text};

/// Puts the path of what stands around a field before the field's name.
pub(super) fn within(path: impl Display) -> impl FnOnce(Unfit) -> Unfit {
    move |unfit| {
        let dot = if unfit.field.is_empty() || unfit.field.starts_with('[') { "" } else { "." };
        Unfit { field: format!("{path}{dot}{}", unfit.field), ..unfit }
    }
}

/// What a string says. None where it is no string, or says what is no Unicode.
pub(super) fn plain_text(raw: &RawValue) -> Option<Text<'_>> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str(raw.get()).ok().map(Cow::Owned)
}

/// A string.
pub(super) fn text<'a>(raw: &'a RawValue, field: &str) -> Result<Text<'a>, Unfit> {
    plain_text(raw).ok_or_else(|| Unfit::new(field, format!("'{field}' must be a string.")))
}

/// True or false.
pub(super) fn flag(raw: &RawValue, field: &str) -> Result<bool, Unfit> {
    match raw.get() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Unfit::new(field, format!("'{field}' must be true or false."))),
    }
}

/// A whole number, which some clients write as `12.0`.
pub(super) fn count(raw: &RawValue, field: &str) -> Result<u64, Unfit> {
    let digits = raw.get();
    let whole = |n: &f64| *n >= 0.0 && n.fract() == 0.0 && *n < u64::MAX as f64;
    digits
        .parse()
        .ok()
        .or_else(|| digits.parse::<f64>().ok().filter(whole).map(|n| n as u64))
        .ok_or_else(|| Unfit::new(field, format!("'{field}' must be a whole number that is not negative.")))
}

/// A number, with its digits.
pub(super) fn number<'a>(raw: &'a RawValue, field: &str) -> Result<Json<'a>, Unfit> {
    match raw.get().as_bytes() {
        [b'-' | b'0'..=b'9', ..] => Ok(as_it_is(raw)),
        _ => Err(Unfit::new(field, format!("'{field}' must be a number."))),
    }
}

/// The members of an object. `field` is empty for the object that has no name but its place.
pub(super) fn object<'a>(raw: &'a RawValue, field: &str) -> Result<Members<'a>, Unfit> {
    Members::of(raw)
        .ok_or_else(|| Unfit::new(field, format!("'{field}' must be an object, with every key in it once.")))
}

/// The members of an object that is known by its place in a list.
pub(super) fn entry(raw: &RawValue) -> Result<Members<'_>, Unfit> {
    Members::of(raw).ok_or_else(|| Unfit::new("", "This must be an object, with every key in it once."))
}

/// The elements of a list.
pub(super) fn list<'a>(raw: &'a RawValue, field: &str) -> Result<Vec<&'a RawValue>, Unfit> {
    json::elements(raw).ok_or_else(|| Unfit::new(field, format!("'{field}' must be a list.")))
}

/// A member that has to be there.
pub(super) fn needed<'a>(said: &Members<'a>, field: &str) -> Result<&'a RawValue, Unfit> {
    said.get(field).ok_or_else(|| Unfit::new(field, format!("'{field}' is missing.")))
}

/// A value nobody looks into.
pub(super) fn as_it_is(raw: &RawValue) -> Json<'_> {
    Json(Cow::Borrowed(raw.get()))
}
