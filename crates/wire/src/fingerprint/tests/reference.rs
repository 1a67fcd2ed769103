//! What a body means, told slowly: a tree, and a text of it that is the same for what says the same. Shared with
//! the fuzz target.

/// A tree that keeps what `serde_json` would not: numbers as they are written, both of two equal keys, halves of
/// surrogate pairs.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json {
    Word(&'static str),
    Number(String),
    String(Vec<u16>),
    Array(Vec<Json>),
    Object(Vec<(Vec<u16>, Json)>),
}

/// Where the value of a member named `cache_control` is advice. `*` is any item.
const ADVISED: [(&str, &[&[&str]]); 2] = [
    ("chat", &[&["tools", "*"], &["messages", "*"], TURN, BLOCK]),
    ("messages", &[&["system", "*"], &["tools", "*"], &["messages", "*"], TURN, BLOCK]),
];
const TURN: &[&str] = &["messages", "*", "content", "*"];
const BLOCK: &[&str] = &["messages", "*", "content", "*", "content", "*"];

const LEFT_OUT: [&str; 11] = [
    "model",
    "stream",
    "stream_options",
    "metadata",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "diagnostics",
    "cache_control",
];

/// Reads JSON that is known to be well-formed.
pub(super) fn parse(text: &[u8]) -> Json {
    value(&mut std::str::from_utf8(text).expect("well-formed").trim_matches(space))
}

/// The same text for bodies that say the same in this dialect.
pub(super) fn canonical(body: &Json, dialect: &str) -> String {
    let mut out = String::new();
    write(body, dialect, &mut Vec::new(), &mut out);
    out
}

fn space(char: char) -> bool {
    matches!(char, ' ' | '\n' | '\r' | '\t')
}

fn take(rest: &mut &str, token: &str) -> bool {
    *rest = rest.trim_start_matches(space);
    let found = rest.strip_prefix(token);
    *rest = found.unwrap_or(rest);
    found.is_some()
}

fn value(rest: &mut &str) -> Json {
    if let Some(word) = ["null", "true", "false"].into_iter().find(|word| take(rest, word)) {
        return Json::Word(word);
    }
    if rest.starts_with('"') {
        return Json::String(string(rest));
    }
    if take(rest, "[") {
        let mut items = Vec::new();
        while !take(rest, "]") {
            items.push(value(rest));
            take(rest, ",");
        }
        return Json::Array(items);
    }
    if take(rest, "{") {
        let mut members = Vec::new();
        while !take(rest, "}") {
            let key = string(rest);
            take(rest, ":");
            members.push((key, value(rest)));
            take(rest, ",");
        }
        return Json::Object(members);
    }
    let end = rest.find(|char: char| !char.is_ascii_alphanumeric() && !"+-.".contains(char));
    let (number, after) = rest.split_at(end.unwrap_or(rest.len()));
    assert!(!number.is_empty(), "well-formed");
    *rest = after;
    Json::Number(number.to_owned())
}

fn string(rest: &mut &str) -> Vec<u16> {
    take(rest, "\"");
    let mut units = Vec::new();
    let mut chars = rest.chars();
    loop {
        let char = match chars.next().expect("well-formed") {
            '"' => break,
            '\\' => match chars.next().expect("well-formed") {
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'u' => {
                    let (digits, after) = chars.as_str().split_at(4);
                    units.push(u16::from_str_radix(digits, 16).expect("well-formed"));
                    chars = after.chars();
                    continue;
                }
                char => char,
            },
            char => char,
        };
        units.extend(char.encode_utf16(&mut [0; 2]).iter());
    }
    *rest = chars.as_str();
    units
}

fn write(json: &Json, dialect: &str, path: &mut Vec<String>, out: &mut String) {
    match json {
        Json::Word(word) => out.push_str(word),
        Json::Number(number) => out.push_str(match number.split_once('.') {
            Some((whole, zeros)) if zeros.chars().all(|digit| digit == '0') => whole,
            _ => number,
        }),
        Json::String(units) => out.push_str(&format!("{units:x?}")),
        Json::Array(items) => {
            out.push('(');
            path.push("*".to_owned());
            for item in items {
                write(item, dialect, path, out);
                out.push(';');
            }
            path.pop();
            out.push(')');
        }
        Json::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(key, _)| key);
            out.push('{');
            for (key, value) in members {
                let name = String::from_utf16_lossy(key);
                if left_out(dialect, path, &name) {
                    continue;
                }
                out.push_str(&format!("{key:x?}="));
                // A key that is a star is no item.
                path.push(if name == "*" { "**".to_owned() } else { name });
                write(value, dialect, path, out);
                path.pop();
                out.push(';');
            }
            out.push('}');
        }
    }
}

fn left_out(dialect: &str, path: &[String], name: &str) -> bool {
    let advised = ADVISED.iter().filter(|(name, _)| *name == dialect).flat_map(|(_, paths)| *paths);
    (path.is_empty() && LEFT_OUT.contains(&name))
        || (name == "cache_control" && advised.into_iter().any(|advised| path == *advised))
}

/// Choices from a seed.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        // Any odd multiplier and a rotation will do: it is chance that is wanted, not quality.
        self.0 = (self.0 ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(29);
        (self.0 >> 33) as usize % bound.max(1)
    }

    /// The same meaning in another spelling.
    pub(super) fn spell(&mut self, json: &Json) -> String {
        let mut out = String::new();
        self.space(&mut out);
        self.value(json, &mut out);
        self.space(&mut out);
        out
    }

    fn space(&mut self, out: &mut String) {
        if self.below(3) == 0 {
            out.push_str([" ", "\n", "\t", "\r\n  "][self.below(4)]);
        }
    }

    fn value(&mut self, json: &Json, out: &mut String) {
        match json {
            Json::Word(word) => out.push_str(word),
            Json::Number(number) => {
                out.push_str(number);
                if self.below(2) == 0 && !number.contains(['.', 'e', 'E']) {
                    out.push_str([".0", ".000"][self.below(2)]);
                }
            }
            Json::String(units) => self.string(units, out),
            Json::Array(items) => {
                self.list("[]", items.iter(), out, |dice, item, out| dice.value(item, out));
            }
            Json::Object(members) => {
                // Members of one key stay in their order.
                let seed = self.below(1 << 30) as u64;
                let rank = |key: &[u16]| {
                    key.iter()
                        .fold(seed, |rank, &unit| (rank ^ u64::from(unit)).wrapping_mul(0x100_0000_01b3))
                };
                let mut members: Vec<_> = members.iter().collect();
                members.sort_by_key(|(key, _)| (rank(key), key));
                self.list("{}", members.into_iter(), out, |dice, (key, value), out| {
                    dice.string(key, out);
                    dice.space(out);
                    out.push(':');
                    dice.space(out);
                    dice.value(value, out);
                });
            }
        }
    }

    fn list<T>(
        &mut self,
        brackets: &str,
        items: impl Iterator<Item = T>,
        out: &mut String,
        mut each: impl FnMut(&mut Self, T, &mut String),
    ) {
        out.push_str(&brackets[..1]);
        self.space(out);
        for (at, item) in items.enumerate() {
            if at > 0 {
                out.push(',');
                self.space(out);
            }
            each(self, item, out);
            self.space(out);
        }
        out.push_str(&brackets[1..]);
    }

    fn string(&mut self, units: &[u16], out: &mut String) {
        out.push('"');
        for char in char::decode_utf16(units.iter().copied()) {
            match char {
                Ok('/') if self.below(2) == 0 => out.push_str("\\/"),
                Ok('\n') if self.below(2) == 0 => out.push_str("\\n"),
                Ok('"') if self.below(2) == 0 => out.push_str("\\\""),
                Ok('\\') if self.below(2) == 0 => out.push_str("\\\\"),
                Ok(char) if char >= ' ' && !"\"\\".contains(char) && self.below(4) > 0 => out.push(char),
                Ok(char) => {
                    for unit in char.encode_utf16(&mut [0; 2]) {
                        self.escape(*unit, out);
                    }
                }
                Err(half) => self.escape(half.unpaired_surrogate(), out),
            }
        }
        out.push('"');
    }

    fn escape(&mut self, unit: u16, out: &mut String) {
        let escape = if self.below(2) == 0 { format!("\\u{unit:04x}") } else { format!("\\u{unit:04X}") };
        out.push_str(&escape);
    }

    /// Changes something, or what looks like it.
    pub(super) fn change(&mut self, json: &mut Json) {
        let kind = self.below(4);
        match json {
            Json::Array(items) if kind > 0 && !items.is_empty() => {
                let at = self.below(items.len());
                match kind {
                    1 => drop(items.remove(at)),
                    2 => items.rotate_left(at),
                    _ => self.change(&mut items[at]),
                }
            }
            Json::Object(members) if kind > 0 && !members.is_empty() => {
                let at = self.below(members.len());
                match kind {
                    1 => drop(members.remove(at)),
                    2 if self.below(2) == 0 => members.rotate_left(at),
                    2 => members[at].0.push(u16::from(b'x')),
                    _ => self.change(&mut members[at].1),
                }
            }
            Json::Number(number) if kind > 0 => number.push('0'),
            Json::String(units) if kind > 0 => match self.below(3) {
                0 => drop(units.pop()),
                1 => units.push(0xd83e),
                _ => units.insert(0, u16::from(b'\\')),
            },
            json => {
                let last = Json::Number("7".to_owned());
                *json = [Json::Word("null"), Json::Array(Vec::new()), Json::Object(Vec::new()), last]
                    [self.below(4)]
                .clone();
            }
        }
    }
}
