//! How hard the model is to think, as far as this model and this protocol have a word for it.

use crate::translate::canon::{Conversation, Effort, Mode};
use crate::translate::openai_caps::{ChatTools, OpenAi};
use crate::translate::{Dropped, Unfit};

/// Names of what the client may have asked for.
const EFFORT: &str = "output_config.effort";
const THINKING: &str = "thinking";

/// The effort to ask for. Models that are not known are asked for what the client said, but never told not to
/// think: most don't, and many refuse the word.
pub(super) fn effort(
    said: &Conversation<'_>,
    caps: Option<&OpenAi>,
    dropped: &mut Dropped,
) -> Result<Option<Effort>, Unfit> {
    if said.reasoning.shown.is_some() {
        dropped.add("thinking.display");
    }
    let asked = asked(said);
    let Some(caps) = caps else {
        return Ok(match asked {
            Some((Effort::None, field)) => {
                dropped.add(field);
                None
            }
            asked => asked.map(|(effort, _)| effort),
        });
    };
    if !caps.reasons {
        if let Some((_, field)) = asked.filter(|(effort, _)| *effort != Effort::None) {
            dropped.add(field);
        }
        return Ok(None);
    }
    let taken = asked.map(|(effort, field)| {
        let taken = nearest(caps.efforts, effort);
        if effort == Effort::None && taken != Effort::None {
            dropped.add(field);
        }
        (taken, field)
    });
    let taken = if said.tools.is_empty() { taken } else { beside_tools(said, caps.tools, taken, dropped)? };
    Ok(taken.map(|(effort, _)| effort))
}

/// What the client asked for, and by which field.
fn asked(said: &Conversation<'_>) -> Option<(Effort, &'static str)> {
    match (said.reasoning.mode, said.reasoning.effort) {
        (Some(Mode::Off), _) => Some((Effort::None, THINKING)),
        (_, Some(effort)) => Some((effort, EFFORT)),
        (Some(Mode::Budget(tokens)), None) => Some((of_budget(tokens), THINKING)),
        (Some(Mode::Adaptive | Mode::BetweenTools) | None, None) => None,
    }
}

fn of_budget(tokens: u64) -> Effort {
    match tokens {
        ..4096 => Effort::Low,
        4096..16384 => Effort::Medium,
        _ => Effort::High,
    }
}

/// The hardest that the model has and that is not harder than asked. Who asked for any thinking gets some.
fn nearest(efforts: &[Effort], asked: Effort) -> Effort {
    let mut some = efforts.iter().copied().filter(|effort| asked == Effort::None || *effort != Effort::None);
    let first = some.next().unwrap_or(asked);
    some.take_while(|effort| *effort <= asked).last().unwrap_or(first)
}

/// The same where there are tools, beside which some models may not reason on this protocol.
fn beside_tools(
    said: &Conversation<'_>,
    rule: ChatTools,
    taken: Option<(Effort, &'static str)>,
    dropped: &mut Dropped,
) -> Result<Option<(Effort, &'static str)>, Unfit> {
    let elsewhere =
        "on Chat Completions, to which this call goes. Its provider takes both on the Responses API";
    match (rule, taken) {
        (ChatTools::Never, _) => {
            Err(Unfit::new("tools", format!("This model takes no tools {elsewhere}; or use another model.")))
        }
        (ChatTools::UnlessReasoning | ChatTools::EffortNone, Some((effort, field)))
            if effort != Effort::None =>
        {
            let told =
                format!("This model does not reason beside tools {elsewhere}; or leave '{field}' out.");
            Err(Unfit::new(field, told))
        }
        (ChatTools::EffortNone, None) => {
            if said.reasoning.mode.is_some() {
                dropped.add(THINKING);
            }
            Ok(Some((Effort::None, THINKING)))
        }
        (_, taken) => Ok(taken),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Effort::{High, Low, Max, Medium, Minimal, None, Xhigh};

    #[test]
    fn an_effort_is_the_nearest_that_is_not_harder() {
        let newer = [None, Low, Medium, High, Xhigh];
        let older = [Minimal, Low, Medium, High];
        let table = [
            (&newer[..], None, None),
            (&newer, Minimal, Low),
            (&newer, Low, Low),
            (&newer, Xhigh, Xhigh),
            (&newer, Max, Xhigh),
            (&older, None, Minimal),
            (&older, Minimal, Minimal),
            (&older, Xhigh, High),
            (&[Low, Medium, High], None, Low),
            (&[Low, Medium, High], Minimal, Low),
        ];
        for (efforts, asked, expected) in table {
            assert_eq!(nearest(efforts, asked), expected, "{asked:?} of {efforts:?}");
        }
    }
}
