//! What the model "says": words that follow from the prompt, or calls of its tools, or JSON that fits a
//! schema. The protocols only give it a form.

use serde_json::Value;

use super::hash::draw;
use super::prefix_cache::tokens_of;
use super::schema;

/// What a request asks for, whatever its protocol.
pub(crate) struct Ask<'a> {
    pub(crate) seed: u64,
    /// What the user said last, if the user spoke last.
    pub(crate) last_text: String,
    pub(crate) tools: Vec<Tool<'a>>,
    pub(crate) choice: Choice<'a>,
    /// The schema that the answer has to fit.
    pub(crate) schema: Option<&'a Value>,
    /// The most tokens to answer with.
    pub(crate) limit: Option<u64>,
    pub(crate) stops: Vec<&'a str>,
    pub(crate) images: u64,
    pub(crate) documents: u64,
    /// Said instead of anything else.
    pub(crate) fixed: Option<&'a str>,
    pub(crate) chunks: usize,
}

#[derive(Clone, Copy)]
pub(crate) struct Tool<'a> {
    pub(crate) name: &'a str,
    pub(crate) schema: &'a Value,
    /// Takes a text instead of JSON.
    pub(crate) custom: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice<'a> {
    None,
    Auto,
    Any,
    Named(&'a str),
}

pub(crate) struct Turn {
    pub(crate) text: String,
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) stop: Stop,
    pub(crate) tokens: u64,
}

pub(crate) struct ToolCall {
    /// Sixteen hex digits; protocols put their prefix before it.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
    pub(crate) custom: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    End,
    Length,
    Sequence(String),
    Tools,
}

/// The answer; `index` tells the choices of one request apart.
pub(crate) fn speak(ask: &Ask<'_>, index: u64) -> Turn {
    let seed = if index == 0 { ask.seed } else { draw(ask.seed, index) };
    let calls = tool_calls(ask, seed);
    if !calls.is_empty() {
        let bytes: usize = calls.iter().map(|call| call.name.len() + call.arguments.len() + 16).sum();
        return Turn { text: String::new(), calls, stop: Stop::Tools, tokens: tokens_of(bytes as u64) };
    }
    let text = match (ask.fixed, ask.schema) {
        (Some(fixed), _) => fixed.to_owned(),
        (None, Some(wanted)) => schema::fitting(wanted, seed).to_string(),
        (None, None) => sentence(ask, seed),
    };
    let (text, stop) = ended(text, ask);
    let tokens = tokens_of(text.len() as u64);
    Turn { text, calls, stop, tokens }
}

fn tool_calls(ask: &Ask<'_>, seed: u64) -> Vec<ToolCall> {
    let wanted = ask.last_text.to_lowercase();
    let two = wanted.contains("two tools");
    let asked_for = two || wanted.contains("use tool");
    let named: Vec<Tool<'_>> = match ask.choice {
        Choice::None => return Vec::new(),
        Choice::Auto if !asked_for => return Vec::new(),
        Choice::Named(name) => ask.tools.iter().filter(|tool| tool.name == name).copied().collect(),
        Choice::Auto | Choice::Any => ask.tools.clone(),
    };
    let count = if two { 2 } else { 1 };
    let called = named.iter().cycle().take(if named.is_empty() { 0 } else { count });
    called.enumerate().map(|(at, tool)| tool_call(tool, draw(seed, at as u64))).collect()
}

fn tool_call(tool: &Tool<'_>, seed: u64) -> ToolCall {
    let arguments = match tool.schema {
        _ if tool.custom => words(seed, 6),
        Value::Object(_) => match schema::fitting(tool.schema, seed) {
            object @ Value::Object(_) => object.to_string(),
            // Arguments are always an object, whatever a schema says.
            _ => "{}".to_owned(),
        },
        _ => "{}".to_owned(),
    };
    ToolCall { id: format!("{seed:016x}"), name: tool.name.to_owned(), arguments, custom: tool.custom }
}

fn sentence(ask: &Ask<'_>, seed: u64) -> String {
    let count = (24 + seed % 17).max(ask.chunks as u64);
    let words = words(seed, count);
    match (ask.images, ask.documents) {
        (0, 0) => format!("{words}."),
        (images, documents) => format!("I see {images} images and {documents} documents. {words}."),
    }
}

/// The text as far as stop sequences and the limit let it come.
fn ended(mut text: String, ask: &Ask<'_>) -> (String, Stop) {
    let mut stop = Stop::End;
    let found = ask.stops.iter().filter(|stop| !stop.is_empty());
    let first = found.filter_map(|stop| Some((text.find(*stop)?, *stop))).min_by_key(|(at, _)| *at);
    if let Some((at, sequence)) = first {
        text.truncate(at);
        stop = Stop::Sequence(sequence.to_owned());
    }
    if let Some(limit) = ask.limit.filter(|limit| tokens_of(text.len() as u64) > *limit) {
        let end = text.floor_char_boundary((limit as usize).saturating_mul(4));
        text.truncate(end);
        stop = Stop::Length;
    }
    (text, stop)
}

/// Text in pieces for a stream: as many as asked for, or one per character if it has fewer; between words
/// where there are enough of them. Joined they are the text.
pub(crate) fn pieces(text: &str, count: usize) -> impl Iterator<Item = &str> {
    let spaces = text.match_indices(' ').map(|(at, _)| at).filter(|at| *at > 0);
    let mut starts: Vec<usize> = std::iter::once(0).chain(spaces).collect();
    if starts.len() < count {
        starts = text.char_indices().map(|(at, _)| at).collect();
    }
    let count = if text.is_empty() { 0 } else { count.min(starts.len()).max(1) };
    (0..count).map(move |at| {
        let start = starts[at * starts.len() / count];
        let end = starts.get((at + 1) * starts.len() / count).copied().unwrap_or(text.len());
        &text[start..end]
    })
}

/// What the model thought before it spoke.
pub(crate) fn thought(seed: u64) -> String {
    format!("First, {}.", words(draw(seed, 77), 12))
}

/// Some are not ASCII, so that whoever cuts a stream between bytes is found out.
const WORDS: [&str; 64] = [
    "amber", "anchor", "apple", "arrow", "autumn", "basin", "beacon", "birch", "bridge", "bright", "café",
    "canal", "candle", "cedar", "circle", "clear", "cloud", "copper", "coral", "crown", "dawn", "delta",
    "drift", "ember", "façade", "falcon", "field", "forest", "garden", "glass", "grain", "harbor", "hollow",
    "indigo", "island", "juniper", "kettle", "lantern", "ledger", "linen", "marble", "meadow", "mirror",
    "naïve", "north", "ocean", "orchard", "paper", "pebble", "quartz", "quiet", "river", "saffron", "silver",
    "slow", "stone", "summer", "timber", "valley", "velvet", "water", "willow", "winter", "日和",
];

/// So many words, the first with a capital.
pub(crate) fn words(seed: u64, count: u64) -> String {
    let mut text = String::with_capacity(count as usize * 7);
    for at in 0..count {
        let word = WORDS[(draw(seed, at) % WORDS.len() as u64) as usize];
        if at > 0 {
            text.push(' ');
            text.push_str(word);
            continue;
        }
        let mut letters = word.chars();
        text.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        text.push_str(letters.as_str());
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ask(seed: u64) -> Ask<'static> {
        Ask {
            seed,
            last_text: String::new(),
            tools: Vec::new(),
            choice: Choice::Auto,
            schema: None,
            limit: None,
            stops: Vec::new(),
            images: 0,
            documents: 0,
            fixed: None,
            chunks: 8,
        }
    }

    #[test]
    fn the_same_seed_says_the_same_and_another_does_not() {
        assert_eq!(speak(&ask(1), 0).text, speak(&ask(1), 0).text);
        assert_ne!(speak(&ask(1), 0).text, speak(&ask(2), 0).text);
        assert_ne!(speak(&ask(1), 0).text, speak(&ask(1), 1).text);
    }

    #[test]
    fn a_limit_cuts_the_text_short() {
        let turn = speak(&Ask { limit: Some(5), ..ask(1) }, 0);
        assert!(turn.text.len() <= 20 && turn.tokens <= 5);
        assert_eq!(turn.stop, Stop::Length);
        assert_eq!(speak(&Ask { limit: Some(5000), ..ask(1) }, 0).stop, Stop::End);
        assert_eq!(speak(&Ask { limit: Some(u64::MAX), ..ask(1) }, 0).stop, Stop::End);
    }

    #[test]
    fn the_earliest_stop_sequence_ends_it() {
        let turn = speak(&Ask { fixed: Some("one two three"), stops: vec!["three", "", "two"], ..ask(1) }, 0);
        assert_eq!((turn.text.as_str(), turn.stop), ("one ", Stop::Sequence("two".into())));
    }

    #[test]
    fn tools_are_called_when_asked_for_or_forced() {
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        let tool = |name| Tool { name, schema: &schema, custom: false };
        let with = |text: &str, choice| {
            let tools = vec![tool("a"), tool("b")];
            let turn = speak(&Ask { tools, choice, last_text: text.into(), ..ask(1) }, 0);
            turn.calls.into_iter().map(|call| call.name).collect::<Vec<_>>()
        };
        assert_eq!(with("hello", Choice::Auto), [""; 0]);
        assert_eq!(with("Use tool please", Choice::Auto), ["a"]);
        assert_eq!(with("use two tools", Choice::Auto), ["a", "b"]);
        assert_eq!(with("hello", Choice::Named("b")), ["b"]);
        assert_eq!(with("hello", Choice::Any), ["a"]);
        assert_eq!(with("use tool", Choice::None), [""; 0]);
        assert_eq!(with("hello", Choice::Named("nobody")), [""; 0]);
    }

    #[test]
    fn arguments_fit_the_schema() {
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        let tools = vec![Tool { name: "a", schema: &schema, custom: false }];
        let turn = speak(&Ask { tools, choice: Choice::Any, ..ask(1) }, 0);
        let arguments: Value = serde_json::from_str(&turn.calls[0].arguments).unwrap();
        assert!(arguments["city"].is_string());
    }

    #[test]
    fn pieces_are_as_many_as_asked_for_and_join_to_the_text() {
        for (text, count, expected) in
            [("a b c d", 2, 2), ("a b", 3, 3), ("naïve", 5, 5), ("ab", 9, 2), ("", 4, 0), (" lead", 2, 2)]
        {
            let cut: Vec<&str> = pieces(text, count).collect();
            assert_eq!((cut.len(), cut.concat()), (expected, text.to_owned()), "{text:?}");
        }
        let text = speak(&Ask { chunks: 500, ..ask(3) }, 0).text;
        assert_eq!(pieces(&text, 500).count(), 500);
    }
}
