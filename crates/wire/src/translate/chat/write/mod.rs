//! A request in this protocol's words.
//!
//! Members stand in one fixed order and the messages last, each written by itself: so a longer conversation begins
//! with the bytes of the shorter one. What is refused or left out is named as in Anthropic's Messages, from which
//! such requests come.

mod effort;
mod format;
mod messages;
mod parts;
mod tools;

use crate::translate::canon::{Conversation, Effort, Part, Tier};
use crate::translate::json::{Object, put_list, put_text};
use crate::translate::names::opaque;
use crate::translate::openai_caps::{OpenAi, openai};
use crate::translate::{Destination, Dropped, Names, Unfit};

/// The longest name of a tool.
const LONGEST_NAME: usize = 64;

/// The longest name of a user. Anthropic takes longer ones, and its own tools send them.
const LONGEST_USER: usize = 64;

/// So many stop sequences are taken.
const STOPS: usize = 4;

/// What a request is written by.
struct Way<'w> {
    to: &'w Destination<'w>,
    /// What is known of the model.
    caps: Option<&'static OpenAi>,
    names: Names,
    /// Names of tools that take a free text.
    free: Vec<&'w str>,
}

/// Writes a request.
pub(super) fn write(
    said: &Conversation<'_>,
    to: &Destination<'_>,
    dropped: &mut Dropped,
) -> Result<(Vec<u8>, Names), Unfit> {
    let way = Way { to, caps: openai(to.model), names: names(said), free: tools::free(said) };
    let effort = effort::effort(said, way.caps, dropped)?;
    let mut out = Vec::with_capacity(512);
    let mut body = Object::begin(&mut out);
    body.text("model", to.model);
    if said.stream {
        body.flag("stream", true);
        if to.ask_usage {
            body.json("stream_options", r#"{"include_usage":true}"#);
        }
    }
    bounds(&mut body, said, &way)?;
    sampling(&mut body, said, &way, effort, dropped);
    body.maybe("reasoning_effort", effort.map(Effort::word));
    body.maybe("verbosity", said.verbosity.as_deref());
    if let Some(wanted) = &said.format {
        format::write(&mut body, wanted);
    }
    body.maybe("service_tier", said.tier.map(tier));
    let user = said.end_user.as_deref().filter(|user| !user.is_empty());
    body.maybe("user", user.map(|user| opaque(user, LONGEST_USER)).as_deref());
    tools::write(&mut body, said, &way)?;
    if marks(said) {
        dropped.add("cache_control");
    }
    messages::write(body.key("messages"), said, &way, dropped)?;
    body.end();
    Ok((out, way.names))
}

/// Other names for all tools that a provider would refuse, those that are only in the history too.
fn names(said: &Conversation<'_>) -> Names {
    let offered = said.tools.iter().map(|tool| &*tool.name);
    let called = said.turns.iter().flat_map(|turn| &turn.parts).filter_map(|part| match part {
        Part::Call { name, .. } => Some(&**name),
        _ => None,
    });
    Names::fit(offered.chain(called), LONGEST_NAME)
}

/// Where the answer ends. A model that can't write as much as was allowed is allowed what it can: it would refuse
/// more, and the answer is the same.
fn bounds(body: &mut Object<'_>, said: &Conversation<'_>, way: &Way<'_>) -> Result<(), Unfit> {
    if let Some(limit) = said.limit {
        let tokens = way.caps.map_or(limit.tokens, |caps| limit.tokens.min(caps.max_output));
        body.number(if way.to.old_limit { "max_tokens" } else { "max_completion_tokens" }, tokens);
    }
    if said.stop.len() > STOPS {
        let told = format!("The provider takes at most {STOPS} stop sequences.");
        return Err(Unfit::new("stop_sequences", told));
    }
    if !said.stop.is_empty() {
        put_list(body.key("stop"), &said.stop, |text, out| put_text(out, text));
    }
    Ok(())
}

fn sampling(
    body: &mut Object<'_>,
    said: &Conversation<'_>,
    way: &Way<'_>,
    effort: Option<Effort>,
    dropped: &mut Dropped,
) {
    let refused = way.caps.is_some_and(|caps| caps.reasons) && effort != Some(Effort::None);
    for (key, value) in [("temperature", &said.sampling.temperature), ("top_p", &said.sampling.top_p)] {
        match value {
            Some(_) if refused => dropped.add(key),
            Some(value) => body.json(key, &value.0),
            None => {}
        }
    }
    if said.sampling.top_k.is_some() {
        dropped.add("top_k");
    }
}

fn tier(tier: Tier) -> &'static str {
    match tier {
        Tier::Auto => "auto",
        Tier::Standard => "default",
        Tier::Flex => "flex",
        Tier::Priority => "priority",
        Tier::Fast => "fast",
    }
}

/// Whether there is any mark up to which the prompt is to be cached. OpenAI's providers cache by themselves.
fn marks(said: &Conversation<'_>) -> bool {
    let in_part = |part: &Part<'_>| match part {
        Part::Text { cache, .. }
        | Part::Image { cache, .. }
        | Part::Document { cache, .. }
        | Part::Call { cache, .. } => cache.is_some(),
        Part::Result { cache, parts, .. } => cache.is_some() || parts.iter().any(is_marked),
        _ => false,
    };
    said.cache.is_some()
        || said.instructions.iter().any(|text| text.cache.is_some())
        || said.tools.iter().any(|tool| tool.cache.is_some())
        || said.turns.iter().flat_map(|turn| &turn.parts).any(in_part)
}

/// The same for what a tool has given back.
fn is_marked(part: &Part<'_>) -> bool {
    matches!(
        part,
        Part::Text { cache: Some(_), .. }
            | Part::Image { cache: Some(_), .. }
            | Part::Document { cache: Some(_), .. }
    )
}
