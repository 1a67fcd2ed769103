//! The fields that are read, and the rules for them: once, and of the right type.

use std::ops::Range;

use super::scan::{Quoted, Scan, Sink};
use super::{Flag, Limit, Malformed, Peek, StreamOptions, Text};

#[derive(Clone, Copy)]
pub(super) enum Field {
    Model,
    Stream,
    StreamOptions,
    MaxCompletionTokens,
    MaxTokens,
    MaxOutputTokens,
}

impl Field {
    const ALL: [Field; 6] = [
        Field::Model,
        Field::Stream,
        Field::StreamOptions,
        Field::MaxCompletionTokens,
        Field::MaxTokens,
        Field::MaxOutputTokens,
    ];

    fn name(self) -> &'static str {
        match self {
            Field::Model => "model",
            Field::Stream => "stream",
            Field::StreamOptions => "stream_options",
            Field::MaxCompletionTokens => "max_completion_tokens",
            Field::MaxTokens => "max_tokens",
            Field::MaxOutputTokens => "max_output_tokens",
        }
    }

    pub(super) fn named(scan: &Scan<'_, impl Sink>, key: &Quoted) -> Option<Field> {
        if key.escaped {
            return Field::ALL.into_iter().find(|field| says(scan, key, field.name()));
        }
        let quoted = scan.slice(key.span.clone());
        Field::ALL.into_iter().find(|field| &quoted[1..quoted.len() - 1] == field.name().as_bytes())
    }
}

const INCLUDE_USAGE: &str = "stream_options.include_usage";

/// What was read so far.
#[derive(Default)]
pub(super) struct Fields {
    /// One bit per [`Field`] that was there, `null` or not.
    seen: u8,
    model: Option<Text>,
    null_model: Option<Range<usize>>,
    stream: Option<Flag>,
    stream_options: Option<StreamOptions>,
    max_completion_tokens: Option<Limit>,
    max_tokens: Option<Limit>,
    max_output_tokens: Option<Limit>,
}

impl Fields {
    /// Consumes the value of a top-level field.
    pub(super) fn read(&mut self, scan: &mut Scan<'_, impl Sink>, field: Field) -> Result<(), Malformed> {
        let bit = 1 << field as u8;
        let name = field.name();
        if self.seen & bit != 0 {
            return Err(Malformed::Duplicate { field: name });
        }
        self.seen |= bit;
        match field {
            Field::Model => match Value::read(scan, 1, name, STRING)? {
                Value { span, null: true } => self.null_model = Some(span),
                value => self.model = Some(text(scan, value.span, name)?),
            },
            Field::Stream => {
                self.stream = Value::read(scan, 1, name, BOOL)?.present().map(|span| flag(scan, span))
            }
            Field::StreamOptions => self.stream_options = Some(stream_options(scan)?),
            Field::MaxCompletionTokens => self.max_completion_tokens = limit(scan, name)?,
            Field::MaxTokens => self.max_tokens = limit(scan, name)?,
            Field::MaxOutputTokens => self.max_output_tokens = limit(scan, name)?,
        }
        Ok(())
    }

    pub(super) fn into_peek(self, object_start: usize, empty: bool) -> Peek {
        Peek {
            model: self.model,
            stream: self.stream,
            stream_options: self.stream_options,
            output_limit: self.max_completion_tokens.or(self.max_tokens).or(self.max_output_tokens),
            object_start,
            empty,
            null_model: self.null_model,
        }
    }
}

/// A type that a field has to have: the bytes that its values may start with,
/// and what to call it.
struct Kind {
    starts: &'static [u8],
    wants: &'static str,
}

const STRING: Kind = Kind { starts: b"\"", wants: "a string" };
const BOOL: Kind = Kind { starts: b"tf", wants: "true or false" };
const NUMBER: Kind = Kind { starts: b"-0123456789", wants: "a number" };
const OBJECT: Kind = Kind { starts: b"{", wants: "an object" };

/// A value of the wanted type, or `null`.
struct Value {
    span: Range<usize>,
    null: bool,
}

impl Value {
    /// Consumes a value, and then judges its type: broken JSON is the graver fault.
    fn read(
        scan: &mut Scan<'_, impl Sink>,
        outer: u32,
        field: &'static str,
        kind: Kind,
    ) -> Result<Value, Malformed> {
        let first = scan.look();
        let span = scan.skip(outer)?;
        match first {
            Some(b'n') => Ok(Value { span, null: true }),
            Some(byte) if kind.starts.contains(&byte) => Ok(Value { span, null: false }),
            _ => Err(Malformed::WrongType { field, wants: kind.wants }),
        }
    }

    fn present(self) -> Option<Range<usize>> {
        (!self.null).then_some(self.span)
    }
}

/// Whether a key says `name`, however it is spelled.
fn says(scan: &Scan<'_, impl Sink>, key: &Quoted, name: &str) -> bool {
    let quoted = scan.slice(key.span.clone());
    if key.escaped {
        return serde_json::from_slice::<String>(quoted).is_ok_and(|key| key == name);
    }
    quoted[1..quoted.len() - 1] == *name.as_bytes()
}

fn text(scan: &Scan<'_, impl Sink>, span: Range<usize>, field: &'static str) -> Result<Text, Malformed> {
    let quoted = std::str::from_utf8(scan.slice(span.clone()))
        .map_err(|bad| Malformed::NotUtf8 { at: span.start + bad.valid_up_to() })?;
    let inside = &quoted[1..quoted.len() - 1];
    let value = if memchr::memchr(b'\\', inside.as_bytes()).is_none() {
        inside.into()
    } else {
        // The scan let everything through but an escaped half of a surrogate pair.
        serde_json::from_str(quoted)
            .map_err(|_| Malformed::WrongType { field, wants: "a string without unpaired surrogates" })?
    };
    Ok(Text { span, value })
}

fn flag(scan: &Scan<'_, impl Sink>, span: Range<usize>) -> Flag {
    let value = scan.slice(span.clone()) == b"true";
    Flag { span, value }
}

fn limit(scan: &mut Scan<'_, impl Sink>, field: &'static str) -> Result<Option<Limit>, Malformed> {
    let span = Value::read(scan, 1, field, NUMBER)?.present();
    Ok(span.map(|span| Limit { value: tokens(scan.slice(span.clone())), span }))
}

/// The number that a JSON number means as a cap; see [`Limit`].
fn tokens(number: &[u8]) -> u64 {
    // The scan saw digits, signs, a point and an exponent only; as a fallback,
    // no cap is the reading that changes nothing.
    let Ok(number) = std::str::from_utf8(number) else { return u64::MAX };
    number.parse().unwrap_or_else(|_| match number.parse::<f64>() {
        Ok(fraction) if fraction >= 0.0 => fraction as u64,
        _ => u64::MAX,
    })
}

fn stream_options(scan: &mut Scan<'_, impl Sink>) -> Result<StreamOptions, Malformed> {
    if scan.look() != Some(b'{') {
        let Value { span, .. } = Value::read(scan, 1, Field::StreamOptions.name(), OBJECT)?;
        return Ok(StreamOptions { span, object_start: None, empty: true, include_usage: None });
    }
    let start = scan.at();
    scan.expect(b'{')?;
    let object_start = scan.at();
    let mut include_usage = None;
    let empty = scan.members(|scan, key| {
        if !says(scan, &key, "include_usage") {
            return scan.skip(2).map(drop);
        }
        if include_usage.is_some() {
            return Err(Malformed::Duplicate { field: INCLUDE_USAGE });
        }
        let Value { span, null } = Value::read(scan, 2, INCLUDE_USAGE, BOOL)?;
        let value = (!null).then(|| scan.slice(span.clone()) == b"true");
        include_usage = Some((span, value));
        Ok(())
    })?;
    Ok(StreamOptions { span: start..scan.at(), object_start: Some(object_start), empty, include_usage })
}
