//! The smaller members of a request.

use super::thinking::Think;
use crate::translate::canon::{Conversation, Format, Json, Tier};
use crate::translate::claude_caps::Claude;
use crate::translate::json::{Object, put_text, try_list};
use crate::translate::names::opaque;
use crate::translate::{Dropped, Unfit};

/// How hard the model thinks, and the form of its answer.
pub(super) fn output(said: &Conversation<'_>, think: Think, body: &mut Object<'_>) {
    let effort = match think {
        Think::Adaptive(effort) => effort,
        _ => None,
    };
    // The name and description of a schema have no place, and it is always kept to strictly.
    let schema = match &said.format {
        Some(Format::Schema { schema, .. }) => Some(schema),
        _ => None,
    };
    if effort.is_none() && schema.is_none() {
        return;
    }
    let mut config = Object::begin(body.key("output_config"));
    if let Some(effort) = effort {
        config.text("effort", effort.word());
    }
    if let Some(schema) = schema {
        let mut format = Object::typed(config.key("format"), "json_schema");
        format.json("schema", &schema.0);
        format.end();
    }
    config.end();
}

/// Writes how tokens are drawn, as far as the model lets that be chosen. The usual number, 1, need not be said, and
/// is left out in silence where it can't be.
pub(super) fn sampling(
    said: &Conversation<'_>,
    model: &Claude,
    think: Think,
    body: &mut Object<'_>,
    dropped: &mut Dropped,
) -> Result<(), Unfit> {
    // A model that thinks draws its tokens in the one way in which it has learnt to.
    let thinks = matches!(think, Think::Budget(_) | Think::Adaptive(_));
    let temperature = drawn("temperature", &said.sampling.temperature)?;
    let top_p = drawn("top_p", &said.sampling.top_p)?;
    let has_temperature = match temperature {
        Some((_, number)) if number == 1.0 && (!model.sampling || thinks || top_p.is_some()) => false,
        Some(_) if !model.sampling || thinks => {
            dropped.add("temperature");
            false
        }
        Some((_, number)) if number > 1.0 => {
            dropped.add("temperature");
            body.json("temperature", "1");
            true
        }
        Some((json, _)) => {
            body.json("temperature", &json.0);
            true
        }
        None => false,
    };
    match top_p {
        Some((_, number)) if number == 1.0 && (!model.sampling || has_temperature) => {}
        // Not both; and who thinks takes no less.
        Some((_, number)) if !model.sampling || has_temperature || (thinks && number < 0.95) => {
            dropped.add("top_p");
        }
        Some((_, number)) if number > 1.0 => return Err(Unfit::new("top_p", "top_p lies between 0 and 1")),
        Some((json, _)) => body.json("top_p", &json.0),
        None => {}
    }
    match &said.sampling.top_k {
        Some(_) if !model.sampling || thinks => dropped.add("top_k"),
        Some(json) => body.json("top_k", &json.0),
        None => {}
    }
    Ok(())
}

fn drawn<'a>(name: &str, json: &'a Option<Json<'a>>) -> Result<Option<(&'a Json<'a>, f64)>, Unfit> {
    let Some(json) = json else { return Ok(None) };
    match json.0.parse::<f64>() {
        Ok(number) if number >= 0.0 => Ok(Some((json, number))),
        _ => Err(Unfit::new(name, format!("{name} has to be a number from 0 on"))),
    }
}

/// Writes the texts at which the answer ends. The provider takes none that is white space alone.
pub(super) fn stops(
    said: &Conversation<'_>,
    body: &mut Object<'_>,
    dropped: &mut Dropped,
) -> Result<(), Unfit> {
    let mut stops = said.stop.iter().filter(|stop| !stop.trim().is_empty()).peekable();
    if said.stop.iter().any(|stop| stop.trim().is_empty()) {
        dropped.add("stop");
    }
    if stops.peek().is_none() {
        return Ok(());
    }
    try_list(body.key("stop_sequences"), stops, |stop, out| {
        put_text(out, stop);
        Ok(())
    })
}

/// The longest name of a user that is sent.
const LONGEST_USER: usize = 256;

/// Writes who asks.
pub(super) fn end_user(said: &Conversation<'_>, body: &mut Object<'_>) {
    let Some(user) = said.end_user.as_deref().filter(|user| !user.is_empty()) else { return };
    let mut metadata = Object::begin(body.key("metadata"));
    metadata.text("user_id", &opaque(user, LONGEST_USER));
    metadata.end();
}

/// Writes which service is paid for.
pub(super) fn tier(tier: Option<Tier>, model: &Claude, body: &mut Object<'_>, dropped: &mut Dropped) {
    match tier {
        None => {}
        Some(Tier::Auto | Tier::Priority) => body.text("service_tier", "auto"),
        Some(Tier::Standard) => body.text("service_tier", "standard_only"),
        Some(Tier::Fast) if model.fast => body.text("speed", "fast"),
        Some(Tier::Flex | Tier::Fast) => dropped.add("service_tier"),
    }
}
