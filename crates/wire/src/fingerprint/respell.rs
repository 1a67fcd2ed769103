//! One spelling for every string: what says the same is the same bytes.
//!
//! A quote, a backslash and the control characters are escaped, in their short form where there is one, else as
//! `\u00xx` in lower case; all else stands for itself. So most strings are as they have to be already. Half of a
//! surrogate pair has no character to be: it stays an escape, and no string says the same without one.

use memchr::memchr;

/// Writes a string, quotes included, that the scan let through.
pub(super) fn respell(quoted: &[u8], out: &mut Vec<u8>) {
    let mut rest = quoted;
    while let Some(at) = memchr(b'\\', rest) {
        let (plain, escape) = rest.split_at(at);
        out.extend_from_slice(plain);
        rest = match escape.get(1) {
            Some(b'u') => unicode(escape, out),
            Some(b'/') => after(escape, 2, b"/", out),
            // The other escapes have one spelling.
            _ => after(escape, 2, escape.get(..2).unwrap_or(escape), out),
        };
    }
    out.extend_from_slice(rest);
}

/// Writes what an escape of `length` bytes says, and gives what follows it.
fn after<'a>(escape: &'a [u8], length: usize, says: &[u8], out: &mut Vec<u8>) -> &'a [u8] {
    out.extend_from_slice(says);
    escape.get(length..).unwrap_or_default()
}

/// Writes what `\uXXXX` says, or two of them that are a pair.
fn unicode<'a>(escape: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let unit = unit(escape).unwrap_or_default();
    let second = || escape.get(6..).and_then(self::unit);
    let (char, length) = match unit {
        0xd800..0xdc00 => match second() {
            Some(low @ 0xdc00..0xe000) => (char::from_u32(pair(unit, low)), 12),
            _ => (None, 6),
        },
        unit => (char::from_u32(unit), 6),
    };
    let short: &[u8] = match char {
        Some('"') => br#"\""#,
        Some('\\') => br"\\",
        Some('\u{8}') => br"\b",
        Some('\t') => br"\t",
        Some('\n') => br"\n",
        Some('\u{c}') => br"\f",
        Some('\r') => br"\r",
        Some(char) if char >= ' ' => return after(escape, length, utf8(char, &mut [0; 4]), out),
        // A control character without a short form, or half a pair.
        _ => return after(escape, length, &hex(unit), out),
    };
    after(escape, length, short, out)
}

fn utf8(char: char, room: &mut [u8; 4]) -> &[u8] {
    char.encode_utf8(room).as_bytes()
}

/// The number of a `\uXXXX` that `text` begins with.
fn unit(text: &[u8]) -> Option<u32> {
    let digits = text.strip_prefix(br"\u")?.get(..4)?;
    digits.iter().try_fold(0, |unit, &digit| Some(unit << 4 | char::from(digit).to_digit(16)?))
}

fn pair(high: u32, low: u32) -> u32 {
    0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)
}

fn hex(unit: u32) -> [u8; 6] {
    let digit = |shift: u32| b"0123456789abcdef"[(unit >> shift & 0xf) as usize];
    [b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]
}
