//! A client's request, read.
//!
//! A member that is `null` is one that is not there; a zero is a number. What nobody reads is dropped by its name.

mod blocks;
mod parameters;

use serde::Deserialize;
use serde_json::value::RawValue;

use self::blocks::{cache, parts};
use super::json::{
    At, Members, Raw, boolean, is_empty, is_text, list, number, object, part, string, text, whole,
};
use crate::translate::canon::{Conversation, Instruction, Limit, Part, Role, Tier, Turn};
use crate::translate::{Dropped, Unfit};

pub(super) fn read<'a>(body: &'a [u8], dropped: &mut Dropped) -> Result<Conversation<'a>, Unfit> {
    let Members(members) = serde_json::from_slice(body)
        .map_err(|error| Unfit::new("body", format!("the request is no JSON object: {error}")))?;
    let mut said = Conversation::default();
    for (name, raw) in members {
        member(&name, raw, &mut said, dropped)?;
    }
    Ok(said)
}

fn member<'a>(
    name: &str,
    raw: &'a RawValue,
    said: &mut Conversation<'a>,
    dropped: &mut Dropped,
) -> Result<(), Unfit> {
    let at = At::Top(name);
    match name {
        "model" => said.model = string(raw, &at)?,
        "stream" => said.stream = boolean(raw, &at)?,
        "system" => said.instructions = instructions(raw, &at, dropped)?,
        "messages" => said.turns = turns(raw, &at, dropped)?,
        "tools" => said.tools = parameters::tools(raw, &at, dropped)?,
        "tool_choice" => parameters::choice(raw, &at, said, dropped)?,
        "max_tokens" => said.limit = Some(Limit { tokens: whole(raw, &at)?, field: "max_tokens" }),
        "stop_sequences" => {
            let texts = list(raw, &at)?;
            let read = texts.into_iter().enumerate().map(|(n, raw)| string(raw, &At::Element(&at, n)));
            said.stop = read.collect::<Result<_, _>>()?;
        }
        "temperature" => said.sampling.temperature = Some(number(raw, &at)?),
        "top_p" => said.sampling.top_p = Some(number(raw, &at)?),
        "top_k" => said.sampling.top_k = Some(number(raw, &at)?),
        "thinking" => parameters::thinking(raw, &at, said, dropped)?,
        "output_config" => parameters::output(raw, &at, said, dropped)?,
        // Its name before it moved into `output_config`, which goes first.
        "output_format" if said.format.is_some() => {}
        "output_format" => said.format = Some(parameters::format(raw, &at, dropped)?),
        "service_tier" => match &*string(raw, &at)? {
            _ if said.tier == Some(Tier::Fast) => {}
            "auto" => said.tier = Some(Tier::Auto),
            "standard_only" => said.tier = Some(Tier::Standard),
            _ => dropped.add("service_tier"),
        },
        "speed" => match &*string(raw, &at)? {
            "fast" => said.tier = Some(Tier::Fast),
            "standard" => {}
            _ => dropped.add("speed"),
        },
        "metadata" => parameters::metadata(raw, &at, said, dropped)?,
        "cache_control" => said.cache = Some(cache(raw, &at)?),
        "mcp_servers" if is_empty(raw) => {}
        "mcp_servers" => {
            return Err(
                at.unfit("servers of tools are called by Anthropic alone; pass their tools in `tools`")
            );
        }
        // An answer without what went before would look like one with it.
        "thread" => {
            let told = "conversations are kept by Anthropic alone; send all messages instead";
            return Err(at.unfit(told).code("thread_unsupported_request"));
        }
        "container" => {
            return Err(at.unfit("containers are Anthropic's alone; run the code behind a tool of your own"));
        }
        _ => dropped.add(name.to_owned()),
    }
    Ok(())
}

fn instructions<'a>(
    raw: &'a RawValue,
    at: &At<'_>,
    dropped: &mut Dropped,
) -> Result<Vec<Instruction<'a>>, Unfit> {
    let instruction = |part| match part {
        Part::Text { text, cache } => Ok(Instruction { text, cache }),
        _ => Err(at.unfit("instructions are text")),
    };
    parts(raw, at, dropped)?.into_iter().map(instruction).collect()
}

fn turns<'a>(raw: &'a RawValue, at: &At<'_>, dropped: &mut Dropped) -> Result<Vec<Turn<'a>>, Unfit> {
    let messages = list(raw, at)?;
    let mut turns = Vec::with_capacity(messages.len());
    for (n, raw) in messages.into_iter().enumerate() {
        let here = At::Element(at, n);
        let (mut role, mut content) = (None, None);
        for (name, raw) in object(raw, &here)? {
            match &*name {
                "role" => role = Some(raw),
                "content" => content = Some(raw),
                _ => dropped.add(here.left_out(&name)),
            }
        }
        let role = match text(role).as_deref() {
            Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            Some("system") => Role::System,
            _ => return Err(At::Member(&here, "role").unfit("the roles are user, assistant and system")),
        };
        let at = At::Member(&here, "content");
        let content = content.ok_or_else(|| at.unfit("a message has a content"))?;
        turns.push(Turn { at: n, role, parts: parts(content, &at, dropped)? });
    }
    Ok(turns)
}

/// The texts of a string or of a list of text blocks; none where something else is among them.
fn texts(raw: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(borrow)]
        text: Raw<'a>,
    }
    if is_text(raw) {
        return text(Some(raw)).map(String::from);
    }
    let blocks: Vec<Block<'_>> = part(Some(raw))?;
    let texts: Option<Vec<_>> = blocks.into_iter().map(|block| text(block.text)).collect();
    Some(texts?.join("\n"))
}
