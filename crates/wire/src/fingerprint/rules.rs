//! Which fields are no part of a call's meaning, and which make a call that nobody may share: one table per
//! protocol.
//!
//! A table is a tree of [`Node`]s that is walked down beside the body. What no table names is part of the
//! meaning and shared: a list of fields that count would give two callers one answer on the day that a provider
//! invents another field.

/// What is known of one protocol's requests.
pub struct Rules {
    pub(super) top: &'static Node,
    /// Equal calls get equal answers, whatever they ask for.
    pub(super) deterministic: bool,
}

/// What is known of one object, or of an array's items.
pub(super) struct Node {
    pub(super) rules: &'static [&'static [Rule]],
    /// For the values of members without a rule.
    pub(super) others: Option<&'static Node>,
    /// For an array's items.
    pub(super) items: Option<&'static Node>,
    /// An object in which no member vouches for it is not shared, for this reason.
    pub(super) needs: Option<&'static str>,
}

/// What is known of one member.
pub(super) struct Rule {
    pub(super) name: &'static str,
    pub(super) test: Test,
    pub(super) below: Option<&'static Node>,
    /// Why the call is not shared if the test says so.
    pub(super) why: &'static str,
}

/// What a value has to be, so that its call may be shared. `null` is the same as absent everywhere.
#[derive(Clone, Copy)]
pub(super) enum Test {
    /// Anything.
    Any,
    /// Anything, as it does not change the answer: it is out of the canonical form.
    LeftOut,
    Absent,
    /// `false`, which vouches.
    Off,
    /// One of these strings, which vouches.
    OneOf(&'static [&'static str]),
    /// Anything but this string. Another string vouches.
    Not(&'static str),
    /// Neither a string nor a number: a schema may well describe a property of that name.
    NoScalar,
    List,
    /// The number one.
    One,
    /// Anything but the number zero.
    NotZero,
    /// Anything; zero takes the chance out of the answer.
    Temperature,
    /// Anything, and it takes the chance out of the answer.
    Seed,
}

impl Node {
    pub(super) fn rule(&self, name: &[u8]) -> Option<&'static Rule> {
        let first = name.first()?;
        // Comparing texts takes a call, which most rules are not worth.
        let named = |rule: &&Rule| {
            let known = rule.name.as_bytes();
            known.len() == name.len() && known.first() == Some(first) && known == name
        };
        self.rules.iter().find_map(|rules| rules.iter().find(named))
    }
}

const fn rule(name: &'static str, test: Test) -> Rule {
    Rule { name, test, below: None, why: name }
}

const fn left_out(name: &'static str) -> Rule {
    rule(name, Test::LeftOut)
}

const fn below(name: &'static str, below: &'static Node) -> Rule {
    Rule { name, test: Test::Any, below: Some(below), why: name }
}

impl Rule {
    const fn why(self, why: &'static str) -> Rule {
        Rule { why, ..self }
    }

    const fn test(self, test: Test) -> Rule {
        Rule { test, ..self }
    }
}

/// Transport, billing and names of people. The model is here because the one that answers counts instead of the
/// one that was asked for.
static NEUTRAL: &[Rule] = &[
    left_out("model"),
    left_out("stream"),
    left_out("stream_options"),
    left_out("metadata"),
    left_out("user"),
    left_out("cache_control"),
    left_out("safety_identifier"),
    left_out("prompt_cache_key"),
    left_out("prompt_cache_options"),
    left_out("prompt_cache_retention"),
    left_out("diagnostics"),
];

/// What decides how much chance and how many tokens an answer gets.
static SAMPLING: &[Rule] = &[
    rule("temperature", Test::Temperature),
    rule("seed", Test::Seed),
    rule("max_tokens", Test::NotZero),
    rule("max_completion_tokens", Test::NotZero),
    rule("max_output_tokens", Test::NotZero),
    rule("n", Test::One),
];

/// State and effects on the provider's side, and knowledge that is not in the request. The lesser known names
/// are those of compatible providers.
static STATEFUL: &[Rule] = &[
    rule("background", Test::Off),
    rule("deferred", Test::Off),
    rule("previous_response_id", Test::Absent),
    rule("conversation", Test::Absent),
    rule("conversation_id", Test::Absent),
    rule("thread", Test::Absent),
    rule("thread_id", Test::Absent),
    rule("threads", Test::Absent),
    rule("session", Test::Absent),
    rule("session_id", Test::Absent),
    rule("context_id", Test::Absent),
    rule("container", Test::Absent),
    rule("container_id", Test::Absent),
    rule("mcp_servers", Test::Absent),
    rule("moderation", Test::Absent),
    rule("web_search_options", Test::Absent),
    rule("web_search", Test::Absent),
    rule("search_parameters", Test::Absent),
    rule("enable_search", Test::Off),
    rule("grounding", Test::Absent),
    rule("data_sources", Test::Absent),
    rule("connectors", Test::Absent),
    rule("plugins", Test::Absent),
    rule("file_id", Test::NoScalar),
    rule("file_ids", Test::Absent),
];

/// Where an answer is kept only if that was asked for.
static STORE: &[Rule] = &[rule("store", Test::Off)];

const NODE: Node = Node { rules: &[], others: None, items: None, needs: None };

/// Advice on billing, where a provider looks for it. Elsewhere the name is the caller's.
static ADVICE: &[Rule] = &[left_out("cache_control")];

/// Files that are kept by the provider, wherever in a message they are named.
static FILES: &[Rule] =
    &[rule("file_id", Test::NoScalar), rule("file_ids", Test::Absent), below("source", &SOURCE)];

/// A part of a message, in whose every corner files are looked for.
const fn content(rules: &'static [&'static [Rule]]) -> Node {
    Node { rules, others: Some(&CONTENT), items: Some(&CONTENT), needs: None }
}

static CONTENT: Node = content(&[FILES]);
static SOURCE: Node = content(&[FILES, &[rule("type", Test::Not("file")).why("file_id")]]);

/// `system[*]`
static ADVISED: Node = Node { items: Some(&ADVISED_ITEM), ..content(&[]) };
static ADVISED_ITEM: Node = content(&[ADVICE, FILES]);

/// `messages[*]`, `messages[*].content[*]` and `messages[*].content[*].content[*]`
static TURNS: Node = Node { items: Some(&TURN), ..content(&[]) };
static TURN: Node = content(&[ADVICE, FILES, &[below("content", &BLOCKS), rule("audio", Test::Absent)]]);
static BLOCKS: Node = Node { items: Some(&BLOCK), ..content(&[]) };
static BLOCK: Node = content(&[ADVICE, FILES, &[below("content", &ADVISED)]]);

/// Tools that the client runs, in OpenAI's protocols: they say so.
static TOOLS: Node = Node { items: Some(&TOOL), ..NODE };
static TOOL: Node = Node {
    rules: &[&[rule("type", Test::OneOf(&["function", "custom"])).why("tools")]],
    needs: Some("tools"),
    ..NODE
};
static CHAT_TOOLS: Node = Node { items: Some(&CHAT_TOOL), ..NODE };
static CHAT_TOOL: Node = Node {
    rules: &[ADVICE, &[rule("type", Test::OneOf(&["function", "custom"])).why("tools")]],
    needs: Some("tools"),
    ..NODE
};

/// In Anthropic's, a tool without a type is the client's.
static MESSAGES_TOOLS: Node = Node { items: Some(&MESSAGES_TOOL), ..NODE };
static MESSAGES_TOOL: Node =
    Node { rules: &[ADVICE, &[rule("type", Test::OneOf(&["custom"])).why("tools")]], ..NODE };

/// The items of a Responses request. One with neither type nor role is a reference to what the provider keeps.
static INPUT: Node = Node { items: Some(&INPUT_ITEM), ..content(&[]) };
static INPUT_ITEM: Node = Node {
    needs: Some("item_reference"),
    ..content(&[
        FILES,
        &[
            rule("type", Test::Not("item_reference")).why("item_reference"),
            rule("role", Test::Not("")).why("item_reference"),
        ],
    ])
};

/// `POST /v1/chat/completions`
pub(crate) static CHAT: Rules = Rules {
    top: &Node {
        rules: &[
            &[below("messages", &TURNS), below("tools", &CHAT_TOOLS).test(Test::List)],
            NEUTRAL,
            SAMPLING,
            STORE,
            STATEFUL,
        ],
        ..NODE
    },
    deterministic: false,
};

/// `POST /v1/completions`
pub(crate) static COMPLETIONS: Rules =
    Rules { top: &Node { rules: &[NEUTRAL, SAMPLING, STORE, STATEFUL], ..NODE }, deterministic: false };

/// `POST /v1/responses`. An answer that nobody said not to store is stored, and the next call may build on it.
pub(crate) static RESPONSES: Rules = Rules {
    top: &Node {
        rules: &[
            &[
                below("input", &INPUT),
                below("tools", &TOOLS).test(Test::List),
                rule("store", Test::Off),
                // A template that is kept by the provider.
                rule("prompt", Test::Absent),
            ],
            NEUTRAL,
            SAMPLING,
            STATEFUL,
        ],
        needs: Some("store"),
        ..NODE
    },
    deterministic: false,
};

/// `POST /v1/messages`
pub(crate) static MESSAGES: Rules = Rules {
    top: &Node {
        rules: &[
            &[
                below("messages", &TURNS),
                below("system", &ADVISED),
                below("tools", &MESSAGES_TOOLS).test(Test::List),
            ],
            NEUTRAL,
            SAMPLING,
            STORE,
            STATEFUL,
        ],
        ..NODE
    },
    deterministic: false,
};

/// `POST /v1/embeddings`
pub(crate) static EMBEDDINGS: Rules =
    Rules { top: &Node { rules: &[NEUTRAL, STORE, STATEFUL], ..NODE }, deterministic: true };
