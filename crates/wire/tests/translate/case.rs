//! Cases on disk: `cases/<who asks whom>/<kind>[-variant].<form>.case`.
//!
//! A case has its parts behind lines that name them:
//! - `=== case`: where it goes, and what is left out on the way;
//! - `=== asked`: the client's request;
//! - `=== sent`: the provider's request that has to leave;
//! - `=== answered`: what the provider says to it;
//! - `=== told`: what the client has to hear.
//!
//! JSON may be spread over lines; a stream stands as it comes.

use std::collections::BTreeMap;

use serde::Deserialize;
use wire::translate::{Destination, Dropped, Put};

use super::Way;

/// What a case says of itself.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct About {
    /// The model, by the provider's name.
    pub(super) model: String,
    /// The provider's status.
    #[serde(default = "ok")]
    pub(super) status: u16,
    /// The client's status.
    #[serde(default = "ok")]
    pub(super) told_status: u16,
    /// What is left out of the request.
    #[serde(default)]
    pub(super) dropped: Vec<String>,
    /// What is left out of the answer.
    #[serde(default)]
    pub(super) lost: Vec<String>,
    #[serde(default)]
    pub(super) ask_usage: bool,
    #[serde(default)]
    pub(super) old_limit: bool,
    #[serde(default)]
    pub(super) replays_thoughts: bool,
}

fn ok() -> u16 {
    200
}

/// One case.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) way: Way,
    /// The name of its file, for complaints.
    pub(super) name: String,
    /// What it is about: `text`, `tools`.
    pub(super) kind: String,
    /// The client asked for a stream.
    pub(super) streamed: bool,
    pub(super) about: About,
    pub(super) asked: String,
    pub(super) sent: String,
    pub(super) answered: String,
    pub(super) told: String,
}

fn folder(way: Way) -> &'static str {
    match way {
        Way::ChatAsksMessages => "chat_asks_messages",
        Way::MessagesAsksChat => "messages_asks_chat",
    }
}

/// All cases. What can't be read is a failure.
pub(super) fn all() -> Vec<Case> {
    Way::BOTH.into_iter().flat_map(of).collect()
}

fn of(way: Way) -> Vec<Case> {
    let path = format!("{}/tests/translate/cases/{}", env!("CARGO_MANIFEST_DIR"), folder(way));
    let mut names: Vec<String> = std::fs::read_dir(&path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names.into_iter().map(|name| read(way, &name, &format!("{path}/{name}"))).collect()
}

fn read(way: Way, name: &str, path: &str) -> Case {
    let text = std::fs::read_to_string(path).unwrap();
    let [what, form, "case"] = name.split('.').collect::<Vec<_>>()[..] else { panic!("{name}: no case") };
    let streamed = match form {
        "plain" => false,
        "stream" => true,
        _ => panic!("{name}: neither plain nor a stream"),
    };
    let mut parts = parts(&text);
    let mut part = |part: &str| parts.remove(part).unwrap_or_else(|| panic!("{name} has no part {part}"));
    let about = serde_json::from_str(&part("case")).unwrap_or_else(|error| panic!("{name}: {error}"));
    let case = Case {
        way,
        name: format!("{}/{name}", folder(way)),
        kind: what.split('-').next().unwrap().to_owned(),
        streamed,
        about,
        asked: part("asked"),
        sent: part("sent"),
        answered: part("answered"),
        told: part("told"),
    };
    assert!(parts.is_empty(), "{name} has unknown parts: {parts:?}");
    case
}

fn parts(text: &str) -> BTreeMap<&str, String> {
    let mut parts: BTreeMap<&str, String> = BTreeMap::new();
    let mut now = "";
    for line in text.split_inclusive('\n') {
        match line.strip_prefix("=== ") {
            Some(name) => {
                now = name.trim_end();
                assert!(parts.insert(now, String::new()).is_none(), "{now} is there twice");
            }
            None => parts.get_mut(now).unwrap().push_str(line),
        }
    }
    parts
}

impl Case {
    /// Sends the client's request on.
    pub(super) fn put(&self) -> Put {
        let to = Destination {
            model: &self.about.model,
            ask_usage: self.about.ask_usage,
            default_limit: 32_000,
            old_limit: self.about.old_limit,
            replays_thoughts: self.about.replays_thoughts,
        };
        let put = self.way.crossing().request(self.asked.as_bytes(), &to);
        put.unwrap_or_else(|unfit| panic!("{}: {}: {unfit}", self.name, unfit.field))
    }

    /// The answer comes as events: not where the provider refused the request.
    pub(super) fn has_events(&self) -> bool {
        self.streamed && self.about.status == 200
    }

    /// The client is shown the usage of a stream.
    pub(super) fn wants_usage(&self) -> bool {
        self.way == Way::MessagesAsksChat || super::tight(&self.asked).contains(r#""include_usage":true"#)
    }
}

/// All that was left out.
pub(super) fn names(dropped: &Dropped) -> Vec<&str> {
    dropped.names().collect()
}
