//! Running one: the provider and all targets are started, each is warmed up, and then they take turns, round by round,
//! so that whatever else the machine does meets all of them.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Error, Result, ensure};
use http::HeaderName;
use http_body_util::BodyExt;
use indicatif::ProgressBar;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep, timeout};
use url::Url;

use crate::client::sdk::{Protocol, Sdk};
use crate::client::{Ask, Client, Outcome, Place, Seen};
use crate::document::{Document, FORMAT, Target};
use crate::knobs::Knobs;
use crate::load::{Pace, Plan, Round};
use crate::process::Process;
use crate::procfs::{Cpu, machine};
use crate::provider::Provider;
use crate::record::Recorder;
use crate::scenario::{Fresh, Rig, Scenario, Setup};
use crate::web;

/// Callers of the round that is thrown away, with a provider of the laboratory's own. A foreign one gets a single call.
const WARM: usize = 64;
const WARM_LIMIT: Duration = Duration::from_secs(60);
/// For a target to answer again after a round in which the provider failed.
const RECOVERY: Duration = Duration::from_secs(60);
/// After a round: what a proxy still does for calls that it has answered belongs to them.
const SETTLE: Duration = Duration::from_millis(150);
/// For a mock that was there already to be put back, also when somebody waits for the end of the command.
const RESTORE: Duration = Duration::from_secs(5);
/// In which a gate tells what it did with a call.
pub const FATE: HeaderName = HeaderName::from_static("x-sluicegate-cache");
/// Of an answer's words, as many as fit a line.
const MOST_WORDS: usize = 160;
/// Sent where no key of the environment is due: a mock takes any.
const NO_KEY: &str = "sk-sluicegate-bench";

/// All that decides what happens.
pub struct Settings {
    pub scenario: &'static Scenario,
    pub knobs: Knobs,
    pub rounds: u32,
    pub seed: u64,
    pub sdk: &'static Sdk,
    pub model: String,
    /// Of the proxies that are there already.
    pub fate_header: HeaderName,
    /// A provider that is there already; else a mock is started.
    pub direct: Option<Url>,
    /// Somebody asked for a latency, so a provider that takes its own time will not do.
    pub latency_typed: bool,
    /// Where the mock that is started listens.
    pub mock: SocketAddr,
    /// Proxies that are there already.
    pub targets: Vec<(String, Url)>,
    /// Put gates and relays before the provider, from this executable.
    pub gate: bool,
    /// For places that are not the laboratory's own.
    pub key: Option<String>,
}

/// A target while the experiment lasts.
struct Subject {
    name: String,
    url: Url,
    place: Result<Place, String>,
    /// Of relays and gates: theirs is the processor time that is counted.
    process: Option<Process>,
    recorder: Recorder,
}

struct Laboratory<'a> {
    settings: &'a Settings,
    client: Client,
    provider: Provider,
    rig: Rig,
    /// Of this run, so that no cache knows its prompts.
    run: String,
    progress: &'a ProgressBar,
}

/// Runs the experiment. `program` is the executable that has the commands `serve` and `mock`.
pub async fn run(settings: &Settings, program: &Path, progress: &ProgressBar) -> Result<Document> {
    run_until(settings, program, progress, std::future::pending()).await
}

/// Runs the experiment, or ends it with the error that `told` comes to. However it ends, what it started is gone then,
/// and a mock that was there already is as it was found.
pub async fn run_until(
    settings: &Settings,
    program: &Path,
    progress: &ProgressBar,
    told: impl Future<Output = Error>,
) -> Result<Document> {
    let mut told = std::pin::pin!(told);
    let (mock, direct, laboratory) = tokio::select! {
        opened = open(settings, program, progress) => opened?,
        why = &mut told => return Err(why),
    };
    let measured = tokio::select! {
        measured = laboratory.measure(&direct, mock.is_some(), program) => measured,
        why = &mut told => Err(why),
    };
    if mock.is_some() {
        return measured;
    }
    let restored = timeout(RESTORE, laboratory.provider.restore()).await.map_err(Error::from).flatten();
    let restored = restored.with_context(|| format!("{direct} is not as it was found"));
    match (measured, restored) {
        (Ok(document), restored) => restored.map(|()| document),
        (Err(why), Ok(())) => Err(why),
        (Err(why), Err(left)) => Err(why.context(format!("{left:#}"))),
    }
}

/// The provider, and what is sent with; the process if it is the laboratory's own mock.
async fn open<'a>(
    settings: &'a Settings,
    program: &Path,
    progress: &'a ProgressBar,
) -> Result<(Option<Process>, Url, Laboratory<'a>)> {
    let started = jiff::Timestamp::now();
    let client = Client { http: web::client()?, sdk: *settings.sdk };
    let (mock, direct) = match &settings.direct {
        Some(url) => (None, url.clone()),
        None => {
            let listen = settings.mock.to_string();
            let mock =
                Process::start(program, &["mock", "--listen", &listen], &[]).await.context("the mock")?;
            let url = base(settings.sdk.protocol, mock.addr)?;
            (Some(mock), url)
        }
    };
    let provider = Provider::at(client.http.clone(), &direct).await?;
    ensure!(
        provider.steered() || !settings.scenario.steered,
        "`{}` needs a provider that can be told how to behave, and {direct} is no `sluicegate mock`",
        settings.scenario.name
    );
    ensure!(
        provider.steered() || !settings.latency_typed,
        "--latency is for a provider that can be told how to behave, and {direct} is no `sluicegate mock`"
    );
    let rig = (settings.scenario.rig)(&settings.knobs);
    let run = format!("{:x}", started.as_microsecond());
    Ok((mock, direct, Laboratory { settings, client, provider, rig, run, progress }))
}

impl Settings {
    /// A provider that is not `steered` has a latency of its own.
    fn parameters(&self, steered: bool) -> BTreeMap<String, Value> {
        let mut parameters = self.knobs.parameters(self.scenario);
        if !steered {
            parameters.remove("latency");
        }
        parameters.insert("rounds".to_owned(), json!(self.rounds));
        parameters.insert("seed".to_owned(), json!(self.seed));
        parameters.insert("sdk".to_owned(), json!(self.sdk.name));
        parameters.insert("model".to_owned(), json!(self.model));
        // The places, as far as they are not what they would be without a word.
        if let Some(direct) = &self.direct {
            parameters.insert("direct".to_owned(), json!(direct.as_str()));
        }
        if self.mock.port() != 0 {
            parameters.insert("mock".to_owned(), json!(self.mock));
        }
        if !self.gate {
            parameters.insert("no-gate".to_owned(), json!(true));
        }
        if !self.targets.is_empty() {
            let targets = self.targets.iter().map(|(name, url)| format!("{name}={url}"));
            parameters.insert("target".to_owned(), targets.collect());
            if self.fate_header != FATE {
                parameters.insert("fate-header".to_owned(), json!(self.fate_header.as_str()));
            }
        }
        parameters
    }
}

fn versions(sdk: &Sdk) -> BTreeMap<String, String> {
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    [
        ("sluicegate", env!("CARGO_PKG_VERSION").to_owned()),
        ("build", build.to_owned()),
        ("client", format!("{} {}", sdk.name, sdk.version)),
    ]
    .map(|(name, version)| (name.to_owned(), version))
    .into()
}

/// What the SDK would be told.
fn base(protocol: Protocol, addr: SocketAddr) -> Result<Url> {
    let path = if protocol == Protocol::OpenAi { "v1" } else { "" };
    Ok(format!("http://{addr}/{path}").parse()?)
}

impl Subject {
    /// With what it came to; one that could not be measured has no figures.
    fn finish(self) -> Target {
        let summary = self.recorder.finish();
        Target {
            name: self.name,
            url: self.url.to_string(),
            cannot: self.place.err(),
            figures: summary.figures,
            spread: summary.spread,
            per_round: summary.per_round,
            timeline: summary.timeline,
            timeline_every: summary.timeline_every,
            histogram: summary.histogram,
        }
    }
}

impl Laboratory<'_> {
    /// All of it, from the first target's start to the verdict.
    async fn measure(&self, direct: &Url, own: bool, program: &Path) -> Result<Document> {
        let (began, started, machine) = (Instant::now(), jiff::Timestamp::now(), machine());
        let settings = self.settings;
        let mut subjects = self.subjects(direct, own, program).await?;
        let calls = subjects.len() as u64 * u64::from(settings.rounds) * settings.knobs.calls as u64;
        self.progress.set_length(calls);
        for subject in &mut subjects {
            self.warm(subject).await?;
        }
        for round in 0..settings.rounds {
            for subject in &mut subjects {
                self.round(subject, round).await?;
            }
        }
        let mut document = Document {
            format: FORMAT,
            scenario: settings.scenario.name.to_owned(),
            title: settings.scenario.title.to_owned(),
            story: settings.scenario.story.map(str::to_owned).to_vec(),
            parameters: settings.parameters(self.provider.steered()),
            machine,
            versions: versions(settings.sdk),
            started: started.to_string(),
            took_ms: began.elapsed().as_secs_f64() * 1e3,
            rounds: settings.rounds,
            targets: subjects.into_iter().map(Subject::finish).collect(),
            events: self.rig.events.clone(),
            ..Document::default()
        };
        document.verdict = (settings.scenario.verdict)(&document);
        Ok(document)
    }

    /// The provider itself, what is put before it, and the proxies that are there already.
    async fn subjects(&self, direct: &Url, own: bool, program: &Path) -> Result<Vec<Subject>> {
        let key = self.settings.key.as_deref().unwrap_or(NO_KEY);
        let provider_key = if own { NO_KEY } else { key };
        let mut subjects = vec![self.subject("direct", direct, provider_key, None)?];
        let setups: &[Setup] = if self.settings.gate { &self.rig.setups } else { &[] };
        for setup in setups {
            let (name, started) = self.start(setup, direct, program).await;
            subjects.push(match started {
                Ok(process) => {
                    let url = base(self.settings.sdk.protocol, process.addr)?;
                    self.subject(&name, &url, provider_key, Some(process))?
                }
                Err(failed) => {
                    let mut subject = self.subject(&name, direct, provider_key, None)?;
                    subject.place = Err(format!("{failed:#}"));
                    subject
                }
            });
        }
        for (name, url) in &self.settings.targets {
            let mut subject = self.subject(name, url, key, None)?;
            subject.place = Ok(Place::new(self.settings.sdk, url, key, self.settings.fate_header.clone())?);
            subjects.push(subject);
        }
        Ok(subjects)
    }

    fn subject(&self, name: &str, url: &Url, key: &str, process: Option<Process>) -> Result<Subject> {
        let place = Place::new(self.settings.sdk, url, key, FATE)?;
        let recorder = Recorder::new(self.rig.interest);
        Ok(Subject { name: name.to_owned(), url: url.clone(), place: Ok(place), process, recorder })
    }

    async fn start(&self, setup: &Setup, direct: &Url, program: &Path) -> (String, Result<Process>) {
        match setup {
            Setup::Relay => {
                let upstream = direct.socket_addrs(|| None).ok().and_then(|all| all.first().copied());
                let upstream = upstream.filter(|_| direct.scheme() == "http");
                let started = match upstream.map(|upstream| upstream.to_string()) {
                    Some(to) => Process::start(program, &["relay", "127.0.0.1:0", &to], &[]).await,
                    None => {
                        Err(anyhow::anyhow!("the bare relay speaks plain HTTP only, and {direct} does not"))
                    }
                };
                ("relay".to_owned(), started)
            }
            Setup::Gate { name, arguments, environment } => {
                let kind = match self.settings.sdk.protocol {
                    Protocol::OpenAi => "openai",
                    Protocol::Anthropic => "anthropic",
                };
                let provider = format!("{kind}={direct}");
                let mut all = vec!["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
                all.extend(["--provider", &provider]);
                all.extend(arguments.iter().map(String::as_str));
                let environment: Vec<_> =
                    environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                (name.clone(), Process::start(program, &all, &environment).await)
            }
        }
    }

    /// The round that is thrown away: connections are opened, code is touched for the first time. The provider has
    /// no trouble in it and takes no time. A target that answers nobody now is not measured.
    async fn warm(&self, subject: &mut Subject) -> Result<()> {
        let Ok(place) = &subject.place else { return Ok(()) };
        self.progress.set_message(format!("{}, warming up", subject.name));
        self.steer("ok", &json!({})).await?;
        let calls = if self.provider.steered() { self.settings.knobs.calls.min(WARM) } else { 1 };
        let fresh = self.fresh(&subject.name, "warm");
        let prompts = (0..calls).map(|number| fresh.number(number));
        let plan = Plan {
            asks: prompts.map(|prompt| self.ask(&prompt)).collect(),
            pace: Pace::at_once(calls),
            patience: WARM_LIMIT,
            seed: self.settings.seed,
        };
        let round = plan.run(&self.client, place, || {}).await;
        if !round.calls.iter().any(|(_, seen)| seen.outcome == Outcome::Ok) {
            let outcome = round.calls.first().map_or(Outcome::Waiting, |(_, seen)| seen.outcome);
            let said = self.why(place, &self.ask(&fresh.number(calls)), outcome).await;
            ensure!(subject.name != "direct", "{} answers no call ({outcome}): {said}", subject.url);
            let why = format!("it answered no call before the experiment began: {said}");
            // The others are measured all the same, which may take minutes: who mistyped wants to know now.
            self.progress.suspend(|| {
                let _nobody_there = writeln!(std::io::stderr(), "{}: {why}", subject.name);
            });
            subject.place = Err(why);
        }
        Ok(())
    }

    /// What a place that answered no call says to one more: where that is, what came, and what may be wrong.
    async fn why(&self, place: &Place, ask: &Ask, outcome: Outcome) -> String {
        let settings = self.settings;
        let uri = place.uri();
        let request = match place.request(settings.sdk, ask, 0) {
            Ok(request) => request,
            Err(failed) => return format!("{uri}: {failed:#}"),
        };
        let exchange = async {
            let response = self.client.http.request(request).await?;
            let status = response.status();
            // A body that breaks off or does not end has said enough.
            let body = timeout(RESTORE, response.into_body().collect()).await;
            let body = body.ok().and_then(Result::ok).map(http_body_util::Collected::to_bytes);
            Ok::<_, hyper_util::client::legacy::Error>((status, body.unwrap_or_default()))
        };
        let (status, body) = match timeout(WARM_LIMIT, exchange).await {
            Err(_) => return format!("{uri}: no answer within {} s", WARM_LIMIT.as_secs()),
            Ok(Err(failed)) => return format!("{uri}: {}", unconnected(&failed)),
            Ok(Ok(answer)) => answer,
        };
        let words = words(&body, settings.key.as_deref());
        let variable = match settings.sdk.protocol {
            Protocol::OpenAi => "OPENAI_API_KEY",
            Protocol::Anthropic => "ANTHROPIC_API_KEY",
        };
        let hint = match (status.as_u16(), settings.key.is_some()) {
            (401 | 403, true) => format!("is the key in {variable} the one that it asks for?"),
            (401 | 403, false) => format!("it asks for a key: put it into {variable}"),
            (404, _) => format!(
                "is the base URL right, `/v1` and all, and is there a model `{}` (--model)?",
                settings.model
            ),
            (400 | 422, _) => format!("does it have the model `{}`? --model names another", settings.model),
            (200..300, _) => format!("that is no whole answer (`{outcome}`)"),
            _ => return format!("{uri}: {status}{words}"),
        };
        format!("{uri}: {status}{words}; {hint}")
    }

    async fn round(&self, subject: &mut Subject, round: u32) -> Result<()> {
        let (settings, knobs) = (self.settings, &self.settings.knobs);
        let Ok(place) = &subject.place else {
            self.progress.inc(knobs.calls as u64);
            return Ok(());
        };
        self.progress.set_message(format!("{}, round {} of {}", subject.name, round + 1, settings.rounds));
        if self.rig.script != "ok" {
            self.steer("ok", &json!({})).await?;
            self.recovered(subject, place, round).await;
        }
        let fresh = self.fresh(&subject.name, &round.to_string());
        let prompts = (settings.scenario.prompts)(knobs, &fresh);
        let plan = Plan {
            asks: prompts.iter().map(|prompt| self.ask(prompt)).collect(),
            pace: (settings.scenario.pace)(knobs),
            patience: knobs.patience,
            seed: settings.seed.wrapping_add(u64::from(round) << 32),
        };
        self.steer(&self.rig.script, &self.rig.limits).await?;
        let process = subject.process.as_ref().filter(|_| self.rig.interest.cpu);
        let before = cpu(process);
        let bar = self.progress.clone();
        let done = plan.run(&self.client, place, move || bar.inc(1)).await;
        sleep(SETTLE).await;
        let spent = cpu(process).zip(before).map(|(after, before)| after.since(before));
        self.provider.quiet().await?;
        self.count(subject, &done, spent).await
    }

    async fn count(&self, subject: &mut Subject, done: &Round, spent: Option<Duration>) -> Result<()> {
        let counts = self.provider.counts().await?;
        let calls = done.calls.len().max(1) as f64;
        let flow = counts.filter(|_| self.rig.interest.flow);
        subject.recorder.add(done, |figures| {
            figures.upstream_calls = counts.map(|counts| counts.arrived);
            figures.most_in_flight = counts.map(|counts| counts.most_in_flight);
            figures.connections = flow.and_then(|counts| counts.connections.used);
            figures.groups = flow.and_then(|counts| counts.groups.count);
            figures.largest_group = flow.and_then(|counts| counts.groups.largest);
            figures.cpu_us_per_call = spent.map(|spent| spent.as_secs_f64() * 1e6 / calls);
        });
        Ok(())
    }

    /// Makes the provider behave, and begin its counts and its script anew. Foreign ones do as they like.
    async fn steer(&self, script: &str, limits: &Value) -> Result<()> {
        if !self.provider.steered() {
            return Ok(());
        }
        let mut all = well();
        all.extend(limits.as_object().cloned().unwrap_or_default());
        self.provider.script("ok").await?;
        self.provider.limits(&Value::Object(all)).await?;
        self.provider.quiet().await?;
        self.provider.reset().await?;
        self.provider.script(script).await
    }

    /// Waits until the target answers again. One that does not is measured as it is.
    async fn recovered(&self, subject: &Subject, place: &Place, round: u32) {
        let end = Instant::now() + RECOVERY;
        let fresh = self.fresh(&subject.name, &format!("{round} recovery"));
        for number in 0.. {
            let mut seen = Seen::default();
            let ask = self.ask(&fresh.number(number));
            let call = self.client.call(place, &ask, &mut seen, || 0.0);
            let _given_up = tokio::time::timeout_at(end, call).await;
            if seen.outcome == Outcome::Ok || Instant::now() >= end {
                break;
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    fn ask(&self, prompt: &str) -> Ask {
        Ask::new(self.settings.sdk.protocol, &self.settings.model, prompt, self.settings.knobs.stream)
    }

    fn fresh(&self, target: &str, round: &str) -> Fresh {
        Fresh::new(format!("{} {target} {round}", self.run))
    }
}

/// Why nothing came of a request at all.
fn unconnected(failed: &hyper_util::client::legacy::Error) -> String {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(failed);
    while let Some(error) = cause {
        let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        if kind == Some(std::io::ErrorKind::ConnectionRefused) {
            return "connection refused: nobody listens there".to_owned();
        }
        // The connector tells of it in words alone.
        if error.to_string() == "dns error" {
            return "unknown host".to_owned();
        }
        cause = error.source();
    }
    let last = std::iter::successors(Some(failed as &dyn std::error::Error), |error| error.source()).last();
    let said = last.map_or(String::new(), |error| format!(" ({error})"));
    match failed.is_connect() {
        true => format!("no connection{said}"),
        false => format!("the connection was closed without an answer{said}"),
    }
}

/// What an answer says, on one line, shortened, and without our own key: `: Incorrect API key provided`.
fn words(body: &[u8], key: Option<&str>) -> String {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let found = [&value["error"]["message"], &value["error"], &value["message"], &value["detail"]];
    let message = found.into_iter().find_map(Value::as_str).map(str::to_owned);
    let message = message.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
    let message = key.map_or(message.clone(), |key| message.replace(key, "…"));
    let line = message.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let mut short: String =
        line.chars().filter(|character| !character.is_control()).take(MOST_WORDS).collect();
    if line.chars().count() > MOST_WORDS {
        short.push('…');
    }
    if short.is_empty() { short } else { format!(": {short}") }
}

/// A mock without limits that takes no time.
fn well() -> Map<String, Value> {
    let limits = json!({
        "latency": "0s", "first_byte": null, "chunks": 8, "chunk_interval": "0s", "stamps": false, "jitter": "0",
        "max_in_flight": null, "rpm": null, "tpm": null,
    });
    limits.as_object().cloned().unwrap_or_default()
}

/// Nothing where there is no process of ours, or no `/proc`.
fn cpu(process: Option<&Process>) -> Option<Cpu> {
    Cpu::of(process?.pid()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answers_words_are_one_line_without_the_key() {
        let said = |body: &str| words(body.as_bytes(), Some("sk-secret"));
        assert_eq!(said(r#"{"error":{"message":"No such key: sk-secret\nreally"}}"#), ": No such key: …");
        assert_eq!(said(r#"{"detail":"Not Found"}"#), ": Not Found");
        assert_eq!(said("\n  <h1>No</h1>\nmore"), ": <h1>No</h1>");
        assert_eq!(said(""), "");
        assert_eq!(said(&"x".repeat(1_000)).chars().count(), 2 + MOST_WORDS + 1);
    }
}
