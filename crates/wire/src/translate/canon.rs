//! A conversation and its answer in no protocol's words.
//!
//! What one protocol says is read into these types and written in the words of another. They are wider than any one
//! protocol, so that what a reader finds has a place, and only the writer, who knows where it goes, decides what
//! can't be said there.
//!
//! Texts are borrowed from the request where they stand there without escapes; JSON that nobody has to understand
//! (tool arguments, schemas) stays the text that it came as, so that numbers keep their digits and keys their order.

use std::borrow::Cow;

use crate::watch::Usage;

/// A text, borrowed from the body where it needs no unescaping.
pub type Text<'a> = Cow<'a, str>;

/// The text of one valid JSON value, byte for byte as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Json<'a>(pub Cow<'a, str>);

/// One request to a model that generates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation<'a> {
    /// The model, by the name under which it was asked for.
    pub model: Text<'a>,
    /// The answer is to come as a stream.
    pub stream: bool,
    /// What stands before all turns, one entry for each text that the client kept apart.
    pub instructions: Vec<Instruction<'a>>,
    /// The turns so far, as the client has them: not merged, not reordered.
    pub turns: Vec<Turn<'a>>,
    /// What the model may call.
    pub tools: Vec<Tool<'a>>,
    /// Whether and what it must call.
    pub choice: Option<Choice<'a>>,
    /// Whether it may call several tools in one turn.
    pub parallel: Option<bool>,
    /// Bound on the tokens of the answer.
    pub limit: Option<Limit>,
    /// Texts at which the answer ends.
    pub stop: Vec<Text<'a>>,
    /// JSON numbers, as they came.
    pub sampling: Sampling<'a>,
    /// The form of the answer's text.
    pub format: Option<Format<'a>>,
    /// How much the model is to think, and what of it is to be seen.
    pub reasoning: Reasoning,
    /// Which service is paid for.
    pub tier: Option<Tier>,
    /// Who asks, in the client's own terms.
    pub end_user: Option<Text<'a>>,
    /// The prompt is to be cached up to its end.
    pub cache: Option<Cache>,
    /// How long or short the answer's text is to be: `low`, `medium` or `high`.
    pub verbosity: Option<Text<'a>>,
}

/// One text of the instructions.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction<'a> {
    /// The text.
    pub text: Text<'a>,
    /// The prompt is to be cached up to here.
    pub cache: Option<Cache>,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The user, and the results of tools.
    User,
    /// The model.
    Assistant,
    /// Whoever gives instructions, in the middle of the conversation.
    System,
}

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn<'a> {
    /// Its place in the client's list of messages, for complaints.
    pub at: usize,
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub parts: Vec<Part<'a>>,
}

/// A piece of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Part<'a> {
    /// Plain text.
    Text {
        /// The text.
        text: Text<'a>,
        /// The prompt is to be cached up to here.
        cache: Option<Cache>,
    },
    /// A picture.
    Image {
        /// Where it is.
        source: Source<'a>,
        /// How closely to look at it: `auto`, `low`, `high`, `original`.
        detail: Option<Text<'a>>,
        /// The prompt is to be cached up to here.
        cache: Option<Cache>,
    },
    /// A document.
    Document {
        /// Where it is.
        source: Source<'a>,
        /// Its title or the name of its file.
        name: Option<Text<'a>>,
        /// What the model should know of it.
        context: Option<Text<'a>>,
        /// The prompt is to be cached up to here.
        cache: Option<Cache>,
    },
    /// Sound.
    Audio {
        /// Its bytes in base64.
        data: Text<'a>,
        /// `wav`, `mp3`.
        format: Text<'a>,
    },
    /// The model has called a tool.
    Call {
        /// By which its result is found.
        id: Text<'a>,
        /// The tool.
        name: Text<'a>,
        /// What it was called with.
        arguments: Arguments<'a>,
        /// The prompt is to be cached up to here.
        cache: Option<Cache>,
    },
    /// What a tool has given back.
    Result {
        /// The call.
        id: Text<'a>,
        /// What came of it: texts, images, documents.
        parts: Vec<Part<'a>>,
        /// It failed.
        is_error: bool,
        /// The prompt is to be cached up to here.
        cache: Option<Cache>,
    },
    /// What the model thought.
    Thought(Thought<'a>),
    /// The model would not answer.
    Refusal {
        /// Why.
        text: Text<'a>,
    },
    /// Something that only this protocol has. No other one can say it.
    Foreign {
        /// Its name in that protocol.
        kind: Text<'a>,
    },
}

/// A block of thinking. Its provider checks that it comes back as it was, at its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Thought<'a> {
    /// What may be seen of it; may be empty.
    pub text: Text<'a>,
    /// The provider's seal, without which it is no use to the provider.
    pub seal: Option<Seal<'a>>,
    /// Where among the other parts of its message it stood, for messages that can't keep it in its place.
    pub place: Option<Place>,
}

/// What makes a thought the provider's own.
#[derive(Clone, Debug, PartialEq)]
pub enum Seal<'a> {
    /// A signature over the text.
    Signature(Text<'a>),
    /// The thought itself, encrypted.
    Encrypted(Text<'a>),
}

/// How much of its message came before a thought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Characters (Unicode scalar values) of the message's text.
    pub characters: usize,
    /// Calls of tools.
    pub calls: usize,
}

/// What a tool is called with.
#[derive(Clone, Debug, PartialEq)]
pub enum Arguments<'a> {
    /// A JSON value.
    Json(Json<'a>),
    /// A text of no further form: that of a custom tool, or what was to be JSON and is not.
    Free(Text<'a>),
}

/// Where the bytes of an image or a document are.
#[derive(Clone, Debug, PartialEq)]
pub enum Source<'a> {
    /// Here.
    Base64 {
        /// `image/png`, `application/pdf`.
        media_type: Text<'a>,
        /// The bytes in base64.
        data: Text<'a>,
    },
    /// At an address.
    Url(Text<'a>),
    /// With the provider, under an id that only it knows.
    File(Text<'a>),
    /// It is this text.
    Plain(Text<'a>),
}

/// Something that the model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool<'a> {
    /// Its name.
    pub name: Text<'a>,
    /// What it is for.
    pub description: Option<Text<'a>>,
    /// What it takes.
    pub takes: Takes<'a>,
    /// The model must keep to the schema.
    pub strict: Option<bool>,
    /// The prompt is to be cached up to here.
    pub cache: Option<Cache>,
}

/// What a tool takes.
#[derive(Clone, Debug, PartialEq)]
pub enum Takes<'a> {
    /// A JSON object; the schema may be left out.
    Schema(Option<Json<'a>>),
    /// A text; of some grammar, where one is given.
    Text {
        /// It must keep to a grammar.
        grammar: bool,
    },
    /// The provider runs it.
    Hosted {
        /// Its type in that protocol.
        kind: Text<'a>,
    },
}

/// Whether and what the model must call.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice<'a> {
    /// As it likes.
    Auto,
    /// Nothing.
    None,
    /// Something.
    Any,
    /// This one.
    Named(Text<'a>),
    /// Of these only; one of them it must, if `must` says so.
    Among {
        /// Their names.
        names: Vec<Text<'a>>,
        /// It must call one.
        must: bool,
    },
}

/// Bound on the tokens of an answer, thinking included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// At most so many; zero is a number like others.
    pub tokens: u64,
    /// The field that said so, for complaints.
    pub field: &'static str,
}

/// How the next token is drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampling<'a> {
    /// From 0.
    pub temperature: Option<Json<'a>>,
    /// From 0 to 1.
    pub top_p: Option<Json<'a>>,
    /// A count.
    pub top_k: Option<Json<'a>>,
}

/// The form of an answer's text.
#[derive(Clone, Debug, PartialEq)]
pub enum Format<'a> {
    /// Any JSON object.
    Object,
    /// JSON of this schema.
    Schema {
        /// A name for it.
        name: Option<Text<'a>>,
        /// What it is.
        description: Option<Text<'a>>,
        /// The schema.
        schema: Json<'a>,
        /// Nothing else may come.
        strict: Option<bool>,
    },
}

/// How much the model thinks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reasoning {
    /// How hard.
    pub effort: Option<Effort>,
    /// In which way.
    pub mode: Option<Mode>,
    /// Whether what it thinks is to be seen.
    pub shown: Option<bool>,
}

/// How hard a model thinks; in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// Not at all.
    None,
    /// Hardly.
    Minimal,
    /// A little.
    Low,
    /// As usual.
    Medium,
    /// A lot.
    High,
    /// More than that.
    Xhigh,
    /// All that it can.
    Max,
}

impl Effort {
    /// All of them, with the word that the protocols have for each.
    pub const WORDS: [(Effort, &'static str); 7] = [
        (Effort::None, "none"),
        (Effort::Minimal, "minimal"),
        (Effort::Low, "low"),
        (Effort::Medium, "medium"),
        (Effort::High, "high"),
        (Effort::Xhigh, "xhigh"),
        (Effort::Max, "max"),
    ];

    /// The effort that this word means.
    pub fn of(word: &str) -> Option<Effort> {
        Effort::WORDS.iter().find(|(_, known)| *known == word).map(|(effort, _)| *effort)
    }

    /// The protocols' word for it.
    pub fn word(self) -> &'static str {
        Effort::WORDS[self as usize].1
    }
}

/// In which way a model thinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Not.
    Off,
    /// As it sees fit.
    Adaptive,
    /// Up to so many tokens.
    Budget(u64),
    /// Only between calls of tools.
    BetweenTools,
}

/// Which service is paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// What the account has.
    Auto,
    /// The usual one, and no better one.
    Standard,
    /// Cheaper and slower.
    Flex,
    /// Better, at a higher price.
    Priority,
    /// Faster tokens, at a higher price.
    Fast,
}

/// How long a cached prompt lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// Minutes: the provider's usual time.
    Short,
    /// An hour or more.
    Long,
}

/// A piece of an answer, as a stream brings it. A whole answer is the same pieces, all at once.
///
/// Order: `Start` first; each block is opened, gets its deltas and is closed, and blocks may be open side by side;
/// then `Stop`, then what the usage is; `End` last, only where the provider said that all was said. `Usage` may come
/// more than once, each time with all that is known. `Failed` may come instead of anything.
#[derive(Clone, Debug, PartialEq)]
pub enum Item<'a> {
    /// The answer begins.
    Start {
        /// The provider's id of it.
        id: Text<'a>,
        /// The model that answers.
        model: Text<'a>,
    },
    /// A block begins. Indices grow and are not used twice.
    Open {
        /// By which its pieces are known.
        index: u32,
        /// What it is.
        block: Block<'a>,
    },
    /// More of a block: of its text, its thought, its reason, or the JSON text of its arguments.
    Delta {
        /// The block.
        index: u32,
        /// What is added.
        text: Text<'a>,
    },
    /// The seal of a thought.
    Seal {
        /// The block.
        index: u32,
        /// The signature over it.
        signature: Text<'a>,
    },
    /// A block is whole.
    Close {
        /// The block.
        index: u32,
    },
    /// The model has stopped.
    Stop(Stop<'a>),
    /// What has been counted so far.
    Usage(Usage),
    /// The provider lives.
    Ping,
    /// The provider failed.
    Failed(Failure<'a>),
    /// All is said.
    End,
    /// Something was said that has no place here.
    Lost {
        /// Its name in its protocol.
        name: Text<'a>,
    },
}

/// What a block of an answer is.
#[derive(Clone, Debug, PartialEq)]
pub enum Block<'a> {
    /// Text.
    Text,
    /// Thinking; `encrypted` is what stands there instead of a text, and is whole.
    Thought {
        /// The thought, encrypted.
        encrypted: Option<Text<'a>>,
    },
    /// A call of a tool. Its deltas are the JSON text of the arguments, or the free text of a custom tool.
    Call {
        /// By which its result is found.
        id: Text<'a>,
        /// The tool.
        name: Text<'a>,
        /// The arguments are free text.
        free: bool,
    },
    /// The model would not answer; its deltas say why.
    Refusal,
}

/// Why a model stopped.
#[derive(Clone, Debug, PartialEq)]
pub struct Stop<'a> {
    /// The reason.
    pub reason: Reason,
    /// The stop sequence that it met.
    pub sequence: Option<Text<'a>>,
    /// What was said of it.
    pub detail: Option<Text<'a>>,
    /// The provider's own word.
    pub raw: Text<'a>,
}

/// Why a model stopped, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It had said all, or met a stop sequence.
    Done,
    /// It reached a limit of tokens.
    Length,
    /// It waits for the results of tools.
    Tools,
    /// It would not, or was not let, say it.
    Filtered,
    /// The provider stopped to go on later.
    Paused,
    /// What it wrote was not what it should have been.
    Malformed,
    /// A word that is not known.
    Other,
}

/// How a provider says that it failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure<'a> {
    /// The HTTP status, or the one that such an error would have.
    pub status: u16,
    /// The provider's own name for the kind of error, such as `overloaded_error` or `rate_limit_exceeded`.
    pub code: Option<Text<'a>>,
    /// What it said.
    pub message: Text<'a>,
    /// The field of the request that is to blame.
    pub param: Option<Text<'a>>,
}
