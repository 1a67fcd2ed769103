//! A client's request: its fields, but for messages and tools.
//!
//! `null` is as if a field were not there; zero is a number like others. Hints that no other protocol has are
//! dropped by name, and so is what nobody knows. What would change the answer and has no place is refused, with what
//! the client can do about it.

mod messages;
mod parts;
mod thoughts;
mod tools;

use serde_json::value::RawValue;

use super::json::{as_it_is, count, flag, list, needed, number, object, text, within};
use crate::fold::json::{Members, is_blank, is_null};
use crate::translate::canon::{Conversation, Effort, Format, Limit, Text, Tier};
use crate::translate::{Dropped, Unfit};

/// Fields that change what the answer is like, or what stands in it, and exist nowhere else.
const REFUSED: [(&str, &str); 12] = [
    ("audio", "Spoken answers"),
    ("background", "Work in the background"),
    ("container", "Containers"),
    ("conversation", "Conversations that are kept elsewhere"),
    ("function_call", "'function_call' is the older form of 'tool_choice', which is translated: it"),
    ("functions", "'functions' is the older form of 'tools', which is translated: it"),
    ("logit_bias", "Biases of tokens"),
    ("mcp_servers", "Servers of tools that the provider calls"),
    ("previous_response_id", "Conversations that are kept elsewhere"),
    ("thread", "Conversations that are kept elsewhere"),
    ("top_logprobs", "Probabilities of tokens"),
    ("web_search_options", "A search of the provider's own"),
];

/// Reads a request.
pub(super) fn read<'a>(body: &'a [u8], dropped: &mut Dropped) -> Result<Conversation<'a>, Unfit> {
    let said = Members::read(body)
        .ok_or_else(|| Unfit::new("", "The body must be a JSON object, with every key in it once."))?;
    let mut read = Conversation::default();
    let mut older = Older::default();
    for (key, raw) in said.iter().filter(|(_, raw)| !is_null(raw)) {
        if !common(&mut read, key, raw, dropped)? && !older.take(key, raw)? {
            lesser(&mut read, key, raw, dropped)?;
        }
    }
    older.settle(&mut read);
    messages::read(needed(&said, "messages")?, &mut read, dropped)?;
    Ok(read)
}

/// Fields that have a place in the canonical form. False where the field is none of them.
fn common<'a>(
    read: &mut Conversation<'a>,
    key: &str,
    raw: &'a RawValue,
    dropped: &mut Dropped,
) -> Result<bool, Unfit> {
    match key {
        // Read when all else is: what is wrong with the shorter fields is told first.
        "messages" => {}
        "model" => read.model = text(raw, key)?,
        "stream" => read.stream = flag(raw, key)?,
        // Whether the client sees the usage is decided where the answer is written out.
        "stream_options" => {}
        "tools" => read.tools = tools::tools(raw, dropped)?,
        "tool_choice" => read.choice = Some(tools::choice(raw)?),
        "parallel_tool_calls" => read.parallel = Some(flag(raw, key)?),
        "stop" => read.stop = stop(raw)?,
        "temperature" => read.sampling.temperature = Some(number(raw, key)?),
        "top_p" => read.sampling.top_p = Some(number(raw, key)?),
        "top_k" => read.sampling.top_k = Some(number(raw, key)?),
        "response_format" => read.format = format(raw, dropped).map_err(within(key))?,
        "reasoning_effort" => read.reasoning.effort = Some(effort(raw)?),
        "verbosity" => read.verbosity = Some(text(raw, key)?),
        "service_tier" => match tier(&text(raw, key)?) {
            Some(tier) => read.tier = Some(tier),
            None => dropped.add("service_tier"),
        },
        _ => return Ok(false),
    }
    Ok(true)
}

/// Fields that have an older name beside the newer one, which counts where both are there.
#[derive(Default)]
struct Older<'a> {
    limit: Option<u64>,
    older_limit: Option<u64>,
    end_user: Option<Text<'a>>,
    older_end_user: Option<Text<'a>>,
}

impl<'a> Older<'a> {
    fn take(&mut self, key: &str, raw: &'a RawValue) -> Result<bool, Unfit> {
        match key {
            "max_completion_tokens" => self.limit = Some(count(raw, key)?),
            "max_tokens" => self.older_limit = Some(count(raw, key)?),
            "safety_identifier" => self.end_user = Some(text(raw, key)?),
            "user" => self.older_end_user = Some(text(raw, key)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn settle(self, read: &mut Conversation<'a>) {
        let newer = self.limit.map(|tokens| Limit { tokens, field: "max_completion_tokens" });
        let older = self.older_limit.map(|tokens| Limit { tokens, field: "max_tokens" });
        read.limit = newer.or(older);
        read.end_user = self.end_user.or(self.older_end_user);
    }
}

/// Fields without a place: fine where they say what is the case anyway, else dropped or refused.
fn lesser<'a>(
    read: &mut Conversation<'a>,
    key: &str,
    raw: &'a RawValue,
    dropped: &mut Dropped,
) -> Result<(), Unfit> {
    // The search of a provider's is asked for by an object with nothing in it.
    let is_nothing =
        matches!(raw.get(), "0" | "0.0" | "false") || (is_blank(raw) && key != "web_search_options");
    if let Some((_, what)) = REFUSED.iter().find(|(field, _)| *field == key) {
        let told = format!("{what} can't be had from a provider of another protocol. Leave '{key}' out.");
        return if is_nothing { Ok(()) } else { Err(Unfit::new(key, told)) };
    }
    match key {
        "n" if count(raw, key)? == 1 => Ok(()),
        "n" => Err(Unfit::new(key, "A provider of another protocol gives one choice: 'n' must be 1.")),
        "logprobs" if flag(raw, key)? => Err(Unfit::new(
            key,
            "Probabilities of tokens can't be had from a provider of another protocol. Leave 'logprobs' out.",
        )),
        "modalities" => modalities(raw),
        "reasoning" => reasoning(read, raw, dropped),
        "logprobs" | "presence_penalty" | "frequency_penalty" | "store" if is_nothing => Ok(()),
        "metadata" | "prompt_cache_options" if is_blank(raw) => Ok(()),
        _ => {
            dropped.add(key.to_owned());
            Ok(())
        }
    }
}

fn modalities(raw: &RawValue) -> Result<(), Unfit> {
    for kind in list(raw, "modalities")? {
        if text(kind, "modalities")? != "text" {
            let told =
                "A provider of another protocol answers with text only: 'modalities' must be [\"text\"].";
            return Err(Unfit::new("modalities", told));
        }
    }
    Ok(())
}

/// An extension of hosts: `reasoning.effort`, where `reasoning_effort` is not there.
fn reasoning<'a>(read: &mut Conversation<'a>, raw: &'a RawValue, dropped: &mut Dropped) -> Result<(), Unfit> {
    let Some(said) = Members::of(raw) else {
        dropped.add("reasoning");
        return Ok(());
    };
    for (key, raw) in said.iter().filter(|(_, raw)| !is_null(raw)) {
        match key {
            "effort" => {
                let effort =
                    effort(raw).map_err(|unfit| Unfit { field: "reasoning.effort".into(), ..unfit })?;
                read.reasoning.effort.get_or_insert(effort);
            }
            _ => dropped.add(format!("reasoning.{key}")),
        }
    }
    Ok(())
}

/// One text or several.
fn stop(raw: &RawValue) -> Result<Vec<Text<'_>>, Unfit> {
    if raw.get().starts_with('"') {
        return Ok(vec![text(raw, "stop")?]);
    }
    list(raw, "stop")?.into_iter().map(|raw| text(raw, "stop")).collect()
}

fn effort(raw: &RawValue) -> Result<Effort, Unfit> {
    let word = text(raw, "reasoning_effort")?;
    Effort::of(&word).ok_or_else(|| {
        let known = Effort::WORDS.map(|(_, word)| word).join(", ");
        Unfit::new("reasoning_effort", format!("An effort is one of {known}."))
    })
}

fn tier(word: &str) -> Option<Tier> {
    Some(match word {
        "auto" => Tier::Auto,
        "default" => Tier::Standard,
        "flex" => Tier::Flex,
        "priority" => Tier::Priority,
        "fast" => Tier::Fast,
        _ => return None,
    })
}

fn format<'a>(raw: &'a RawValue, dropped: &mut Dropped) -> Result<Option<Format<'a>>, Unfit> {
    let said = object(raw, "")?;
    for (key, _) in said.iter().filter(|(key, raw)| !["type", "json_schema"].contains(key) && !is_null(raw)) {
        dropped.add(format!("response_format.{key}"));
    }
    match &*text(needed(&said, "type")?, "type")? {
        "text" => Ok(None),
        "json_object" => Ok(Some(Format::Object)),
        "json_schema" => {
            schema(needed(&said, "json_schema")?, dropped).map(Some).map_err(within("json_schema"))
        }
        other => Err(Unfit::new("type", format!("'{other}' is no format that can be translated."))),
    }
}

fn schema<'a>(raw: &'a RawValue, dropped: &mut Dropped) -> Result<Format<'a>, Unfit> {
    let said = object(raw, "")?;
    let (mut name, mut description, mut strict) = (None, None, None);
    for (key, raw) in said.iter().filter(|(_, raw)| !is_null(raw)) {
        match key {
            "name" => name = Some(text(raw, key)?),
            "description" => description = Some(text(raw, key)?),
            "strict" => strict = Some(flag(raw, key)?),
            "schema" => {}
            _ => dropped.add(format!("response_format.json_schema.{key}")),
        }
    }
    let raw = needed(&said, "schema")?;
    object(raw, "schema")?;
    Ok(Format::Schema { name, description, schema: as_it_is(raw), strict })
}
