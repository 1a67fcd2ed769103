//! Names of tools that a provider would refuse, made into such as it takes, and back.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

/// Letters of the digest that makes a shortened name its own.
const DIGEST: usize = 8;

/// The tools of one request that go by other names upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// By the client's name.
    theirs: HashMap<String, String>,
    /// By the provider's.
    ours: HashMap<String, String>,
    free: HashSet<String>,
}

impl Names {
    /// Makes every name one of at most `longest` letters, digits, `_` and `-`. A name is changed in the same way in
    /// every request, and no two become one.
    pub fn fit<'a>(names: impl Iterator<Item = &'a str>, longest: usize) -> Names {
        let names: Vec<&str> = names.collect();
        let mut taken: HashSet<Cow<'a, str>> =
            names.iter().filter(|name| fits(name, longest)).map(|name| Cow::Borrowed(*name)).collect();
        let mut fitted = Names::default();
        for ours in names {
            if fits(ours, longest) || fitted.theirs.contains_key(ours) {
                continue;
            }
            let mut theirs = shorten(ours, longest, 0);
            // A digest of 32 bits: another tool has this very name only by somebody's intention.
            for turn in 1.. {
                if taken.insert(Cow::Owned(theirs.clone())) {
                    break;
                }
                theirs = shorten(ours, longest, turn);
            }
            fitted.ours.insert(theirs.clone(), ours.to_owned());
            fitted.theirs.insert(ours.to_owned(), theirs);
        }
        fitted
    }

    /// The name that goes up.
    pub fn theirs<'a>(&'a self, ours: &'a str) -> &'a str {
        self.theirs.get(ours).map_or(ours, String::as_str)
    }

    /// The name that the client knows.
    pub fn ours<'a>(&'a self, theirs: &'a str) -> &'a str {
        self.ours.get(theirs).map_or(theirs, String::as_str)
    }

    /// Takes note that the client's tool of this name takes free text, and went up as one that takes an object with
    /// the text in it.
    pub fn wrap(&mut self, ours: &str) {
        self.free.insert(ours.to_owned());
    }

    /// Whether the tool that goes up by this name takes free text.
    pub fn is_wrapped(&self, theirs: &str) -> bool {
        self.free.contains(self.ours(theirs))
    }
}

/// An id of at most `longest` letters, digits, `_` and `-`: the same where it is one already.
pub(super) fn plain(id: &str, longest: usize) -> Cow<'_, str> {
    match fits(id, longest) {
        true => Cow::Borrowed(id),
        false => Cow::Owned(shorten(id, longest, 0)),
    }
}

/// Who asks, in at most `longest` letters (64 or more). What may be an address or a name becomes its digest: no
/// provider wants to know either.
pub(super) fn opaque(user: &str, longest: usize) -> Cow<'_, str> {
    let personal = user.contains(|letter: char| letter == '@' || letter.is_whitespace());
    match personal || user.len() > longest {
        true => Cow::Owned(blake3::hash(user.as_bytes()).to_hex().to_string()),
        false => Cow::Borrowed(user),
    }
}

fn fits(name: &str, longest: usize) -> bool {
    (1..=longest).contains(&name.len()) && name.bytes().all(is_plain)
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn shorten(name: &str, longest: usize, turn: usize) -> String {
    let plain = name.chars().map(|letter| match letter.is_ascii() && is_plain(letter as u8) {
        true => letter,
        false => '_',
    });
    let mut short: String = plain.take(longest - DIGEST - 1).collect();
    let digest = blake3::hash(format!("{turn}\0{name}").as_bytes()).to_hex();
    // Writing to a string does not fail.
    let _ = write!(short, "_{}", &digest[..DIGEST]);
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_stays_and_the_rest_comes_back() {
        let long = "srv__".to_owned() + &"a".repeat(65);
        let names = ["get_weather", &long, "files/read.all", "files.read/all", "wetter_für_köln", ""];
        let fitted = Names::fit(names.into_iter(), 64);
        let mut seen = HashSet::new();
        for name in names {
            let theirs = fitted.theirs(name);
            assert!(fits(theirs, 64), "{theirs}");
            assert!(seen.insert(theirs.to_owned()), "{theirs} is there twice");
            assert_eq!(fitted.ours(theirs), name);
        }
        assert_eq!(fitted.theirs("get_weather"), "get_weather");
        assert_eq!(fitted.ours("unknown"), "unknown");
    }

    #[test]
    fn who_asks_is_told_by_a_digest_where_the_name_is_long_or_personal() {
        assert_eq!(opaque("u-17", 64), "u-17");
        for user in ["a@b.example", "Jane Doe", &"u".repeat(65)] {
            let told = opaque(user, 64);
            assert!(told.len() == 64 && fits(&told, 64), "{told}");
            assert_eq!(told, opaque(user, 64));
        }
    }

    #[test]
    fn a_name_does_not_depend_on_its_neighbours() {
        let alone = Names::fit(["a.b"].into_iter(), 64);
        let among = Names::fit(["x.y", "a.b", "a.b", "plain"].into_iter(), 64);
        assert_eq!(alone.theirs("a.b"), among.theirs("a.b"));
    }

    /// A list of a hundred thousand took minutes when each name was looked for among all others.
    #[test]
    fn many_odd_names_take_no_longer_for_each() {
        let names: Vec<String> = (0..100_000).map(|n| format!("f.{n}")).collect();
        let fitted = Names::fit(names.iter().map(String::as_str), 64);
        assert!(names.iter().all(|name| fitted.ours(fitted.theirs(name)) == name));
    }

    #[test]
    fn a_tool_that_bears_the_short_name_keeps_it() {
        let short = Names::fit(["a.b"].into_iter(), 64).theirs("a.b").to_owned();
        let both = Names::fit(["a.b", &short].into_iter(), 64);
        assert_eq!(both.theirs(&short), short);
        assert_ne!(both.theirs("a.b"), short);
        assert_eq!(both.ours(both.theirs("a.b")), "a.b");
    }
}
