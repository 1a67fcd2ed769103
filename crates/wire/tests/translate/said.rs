//! What a request says, in no protocol's words: for comparing requests of different protocols.

use serde_json::value::RawValue;

use super::members;

/// JSON, looked into without losing how it is written.
#[derive(Clone, Copy)]
pub(super) struct J<'a>(&'a RawValue);

impl<'a> J<'a> {
    pub(super) fn read(json: &'a str) -> J<'a> {
        J(serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}")))
    }

    fn get(self, name: &str) -> Option<J<'a>> {
        members(self.0)?
            .into_iter()
            .find(|(key, _)| key == name)
            .map(|(_, raw)| J(raw))
            .filter(|j| j.raw() != "null")
    }

    /// Members of members; a missing one is an empty text.
    fn at(self, path: &[&str]) -> String {
        let found = path.iter().try_fold(self, |at, name| at.get(name));
        found.map_or(String::new(), |found| found.text().unwrap_or_else(|| found.raw().to_owned()))
    }

    fn list(self) -> Vec<J<'a>> {
        serde_json::from_str::<Vec<&RawValue>>(self.0.get())
            .map_or(Vec::new(), |all| all.into_iter().map(J).collect())
    }

    fn text(self) -> Option<String> {
        serde_json::from_str(self.0.get()).ok()
    }

    fn raw(self) -> &'a str {
        self.0.get()
    }

    /// A list, or the one text that stands for it.
    fn parts(self, name: &str) -> Vec<String> {
        match self.get(name) {
            None => Vec::new(),
            Some(one) if one.text().is_some() => vec![format!("text {}", one.text().unwrap())],
            Some(list) => list.list().into_iter().map(part).collect(),
        }
    }
}

/// A part of what a user says.
fn part(part: J<'_>) -> String {
    let kind = part.at(&["type"]);
    match (&*kind, &*part.at(&["source", "type"])) {
        ("text", _) => format!("text {}", part.at(&["text"])),
        ("image_url", _) => format!("image {}", part.at(&["image_url", "url"])),
        ("file", _) => format!("pdf {} {}", part.at(&["file", "filename"]), part.at(&["file", "file_data"])),
        ("image", "url") => format!("image {}", part.at(&["source", "url"])),
        ("image", _) => format!("image {}", data(part)),
        ("document", _) => format!("pdf {} {}", part.at(&["title"]), data(part)),
        (other, _) => panic!("{other}"),
    }
}

fn data(part: J<'_>) -> String {
    format!("data:{};base64,{}", part.at(&["source", "media_type"]), part.at(&["source", "data"]))
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
}

/// The result of one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Returned {
    pub(super) id: String,
    pub(super) parts: Vec<String>,
    pub(super) failed: bool,
}

/// All that one side says until the other one does.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Run {
    User { results: Vec<Returned>, parts: Vec<String>, system: Vec<String> },
    Assistant { text: String, calls: Vec<Call>, thoughts: Vec<String> },
}

/// A request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Said {
    pub(super) system: Vec<String>,
    pub(super) runs: Vec<Run>,
    /// Name, description, schema, strictness.
    pub(super) tools: Vec<[String; 4]>,
    /// The word of Chat Completions, or a name.
    pub(super) choice: String,
    pub(super) one_at_a_time: bool,
    pub(super) limit: String,
    pub(super) temperature: String,
    pub(super) top_p: String,
    pub(super) stop: Vec<String>,
    pub(super) schema: String,
    pub(super) effort: String,
    pub(super) user: String,
}

impl Said {
    fn user(&mut self) -> (&mut Vec<Returned>, &mut Vec<String>, &mut Vec<String>) {
        if !matches!(self.runs.last(), Some(Run::User { .. })) {
            self.runs.push(Run::User { results: Vec::new(), parts: Vec::new(), system: Vec::new() });
        }
        match self.runs.last_mut() {
            Some(Run::User { results, parts, system }) => (results, parts, system),
            _ => unreachable!(),
        }
    }

    pub(super) fn thoughts(&mut self) -> impl Iterator<Item = &mut Vec<String>> {
        self.runs.iter_mut().filter_map(|run| match run {
            Run::Assistant { thoughts, .. } => Some(thoughts),
            Run::User { .. } => None,
        })
    }
}

fn texts(parts: Vec<String>) -> impl Iterator<Item = String> {
    parts.into_iter().map(|part| part.strip_prefix("text ").unwrap().to_owned())
}

/// Reads a request of Chat Completions.
pub(super) fn of_chat(body: &str) -> Said {
    let body = J::read(body);
    let mut said = Said {
        tools: body.get("tools").map_or(Vec::new(), |tools| {
            let field = |tool: J<'_>, name: &str| tool.at(&["function", name]);
            let read = |tool| ["name", "description", "parameters", "strict"].map(|name| field(tool, name));
            tools.list().into_iter().map(read).collect()
        }),
        choice: body.get("tool_choice").map_or(String::new(), |choice| {
            choice.text().unwrap_or_else(|| choice.at(&["function", "name"]))
        }),
        one_at_a_time: body.at(&["parallel_tool_calls"]) == "false",
        limit: match body.at(&["max_completion_tokens"]) {
            none if none.is_empty() => body.at(&["max_tokens"]),
            limit => limit,
        },
        temperature: body.at(&["temperature"]),
        top_p: body.at(&["top_p"]),
        stop: body.get("stop").map_or(Vec::new(), |stop| match stop.text() {
            Some(one) => vec![one],
            None => stop.list().into_iter().map(|stop| stop.text().unwrap()).collect(),
        }),
        schema: body.at(&["response_format", "json_schema", "schema"]),
        effort: body.at(&["reasoning_effort"]),
        user: body.at(&["user"]),
        ..Said::default()
    };
    for message in body.get("messages").unwrap().list() {
        let parts = message.parts("content");
        match &*message.at(&["role"]) {
            "system" | "developer" if said.runs.is_empty() => said.system.extend(texts(parts)),
            "system" | "developer" => said.user().2.extend(texts(parts)),
            "user" => said.user().1.extend(parts),
            "tool" => {
                let parts = parts.into_iter().filter(|part| part != "text ").collect();
                said.user().0.push(Returned { id: message.at(&["tool_call_id"]), parts, failed: false });
            }
            _ => said.runs.push(of_assistant(message, parts)),
        }
    }
    said
}

fn of_assistant(message: J<'_>, parts: Vec<String>) -> Run {
    let calls = message.get("tool_calls").map_or(Vec::new(), J::list).into_iter().map(|call| Call {
        id: call.at(&["id"]),
        name: call.at(&["function", "name"]),
        arguments: call.at(&["function", "arguments"]),
    });
    let thoughts = message.get("reasoning_details").map_or(Vec::new(), J::list).into_iter();
    let thoughts = thoughts.map(|thought| format!("{}{}", thought.at(&["text"]), thought.at(&["data"])));
    let text = texts(parts).collect::<String>() + &message.at(&["refusal"]);
    Run::Assistant { text, calls: calls.collect(), thoughts: thoughts.collect() }
}

/// Reads a request of Messages.
pub(super) fn of_messages(body: &str) -> Said {
    let body = J::read(body);
    let effort = match (&*body.at(&["thinking", "type"]), body.at(&["output_config", "effort"])) {
        ("disabled", _) => "none".into(),
        ("enabled", _) => format!("{} tokens", body.at(&["thinking", "budget_tokens"])),
        (_, effort) => effort,
    };
    let mut said = Said {
        system: texts(body.parts("system")).collect(),
        tools: body.get("tools").map_or(Vec::new(), |tools| {
            let read =
                |tool: J<'_>| ["name", "description", "input_schema", "strict"].map(|name| tool.at(&[name]));
            tools.list().into_iter().map(read).collect()
        }),
        choice: match &*body.at(&["tool_choice", "type"]) {
            "any" => "required".into(),
            "tool" => body.at(&["tool_choice", "name"]),
            other => other.into(),
        },
        one_at_a_time: body.at(&["tool_choice", "disable_parallel_tool_use"]) == "true",
        limit: body.at(&["max_tokens"]),
        temperature: body.at(&["temperature"]),
        top_p: body.at(&["top_p"]),
        stop: texts(body.parts_of("stop_sequences")).collect(),
        schema: body.at(&["output_config", "format", "schema"]),
        effort,
        user: body.at(&["metadata", "user_id"]),
        ..Said::default()
    };
    for message in body.get("messages").unwrap().list() {
        match &*message.at(&["role"]) {
            "system" => said.user().2.extend(texts(message.parts("content"))),
            "user" => {
                if message.get("content").unwrap().text().is_some() {
                    said.user().1.extend(message.parts("content"));
                }
                for block in message.get("content").unwrap().list() {
                    match &*block.at(&["type"]) {
                        "tool_result" => said.user().0.push(Returned {
                            id: block.at(&["tool_use_id"]),
                            parts: block.parts("content"),
                            failed: block.at(&["is_error"]) == "true",
                        }),
                        _ => said.user().1.push(part(block)),
                    }
                }
            }
            _ => {
                let (mut text, mut calls, mut thoughts) = (String::new(), Vec::new(), Vec::new());
                for block in message.get("content").unwrap().list() {
                    match &*block.at(&["type"]) {
                        "text" => text.push_str(&block.at(&["text"])),
                        "tool_use" => calls.push(Call {
                            id: block.at(&["id"]),
                            name: block.at(&["name"]),
                            arguments: block.get("input").unwrap().raw().to_owned(),
                        }),
                        _ => thoughts.push(format!("{}{}", block.at(&["thinking"]), block.at(&["data"]))),
                    }
                }
                said.runs.push(Run::Assistant { text, calls, thoughts });
            }
        }
    }
    said
}

impl J<'_> {
    /// A list of texts.
    fn parts_of(self, name: &str) -> Vec<String> {
        let list = self.get(name).map_or(Vec::new(), J::list);
        list.into_iter().map(|text| format!("text {}", text.text().unwrap())).collect()
    }
}
