//! `sluicegate bench`: what was typed, resolved; then an experiment, its report on standard output,
//! and as a page where that is asked for.

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::builder::{PossibleValue, PossibleValuesParser};
use http::HeaderName;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::signal::unix::{SignalKind, signal};
use url::Url;

use crate::client::sdk::{Protocol, SDKS, Sdk};
use crate::document::{Document, FORMAT};
use crate::experiment::{self, FATE, Settings};
use crate::knobs::{Knobs, Typed};
use crate::load::Pace;
use crate::procfs::ignores_hangup;
use crate::scenario::{SCENARIOS, Scenario, named};
use crate::{report, table};

/// Files of a process that are no connections of calls.
const SPARE_FILES: u64 = 100;

#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Times are written 500ms, 1.5s or 2m; a bare number is seconds. `sluicegate call --help`: one \
                        call as an SDK makes it, described."
)]
pub struct Bench {
    /// Which experiment; none with --with, for a page of earlier ones alone
    #[arg(value_name = "SCENARIO",
        value_parser = PossibleValuesParser::new(SCENARIOS.iter().map(choice)))]
    pub scenario: Option<String>,

    /// A proxy that is running already, by its base URL as an SDK takes it; repeatable
    #[arg(long = "target", value_name = "NAME=URL", value_parser = target)]
    pub targets: Vec<(String, Url)>,
    /// The provider that is called directly and that the gate is put before [default: a mock is started]
    #[arg(long, value_name = "URL", value_parser = url)]
    pub direct: Option<Url>,
    /// Where the mock that is started listens, for proxies that are set up to ask it
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", conflicts_with = "direct")]
    pub mock: SocketAddr,
    /// Measure no gate beside the targets
    #[arg(long)]
    pub no_gate: bool,

    #[command(flatten)]
    pub knobs: Typed,

    /// Rounds that count; the figures are medians
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Of all that is random: the same seed gives the same waits
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Whose retries, waits and headers the callers have
    #[arg(long, value_name = "NAME", default_value = SDKS[0].name,
        value_parser = PossibleValuesParser::new(SDKS.iter().map(|sdk| sdk.name)))]
    pub sdk: String,
    /// What is asked [default: gpt-5-mini, for Anthropic's SDKs claude-haiku-4-5]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// The header in which a --target tells what it did with a call
    #[arg(long, value_name = "NAME", default_value_t = FATE)]
    pub fate_header: HeaderName,
    /// Print the report as one JSON document
    #[arg(long)]
    pub json: bool,
    /// Write the report as a page too, and the JSON document beside it: out.html, out.json
    #[arg(long, value_name = "FILE", value_parser = page)]
    pub report: Option<Page>,
    /// An earlier report's JSON document that goes on the page, before what is measured now; repeatable
    #[arg(long, value_name = "FILE", requires = "report", value_parser = earlier)]
    pub with: Vec<Box<Document>>,
}

/// Where the report goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    pub html: PathBuf,
    pub json: PathBuf,
}

/// Runs the command. `program` is the executable that has the commands `serve`, `mock` and `relay`.
pub fn run(bench: &Bench, program: &Path) -> ExitCode {
    if bench.scenario.is_none() && bench.with.is_empty() {
        eprint!("{}", choose());
        return ExitCode::from(2);
    }
    match start(bench, program) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            // After a hangup there may be nobody to tell.
            let _nobody_there = writeln!(std::io::stderr(), "sluicegate bench: {failed:#}");
            ExitCode::FAILURE
        }
    }
}

/// For who did not say which experiment.
fn choose() -> String {
    let lines = SCENARIOS.iter().map(|scenario| format!("  {:<10} {}\n", scenario.name, scenario.title));
    format!(
        "sluicegate bench: which SCENARIO? There are\n\n{}\nsuch as `sluicegate bench crowd`; --help has their flags.\n",
        lines.collect::<String>()
    )
}

fn start(bench: &Bench, program: &Path) -> Result<()> {
    let earlier = || bench.with.iter().map(|document| Document::clone(document));
    let Some(scenario) = &bench.scenario else {
        return bench.report.as_ref().map_or(Ok(()), |page| page.write(&earlier().collect::<Vec<_>>()));
    };
    let settings = settings(bench, scenario)?;
    // Each call may need a descriptor; the processes that take part inherit the limit.
    let limit = rlimit::increase_nofile_limit(u64::MAX).unwrap_or(u64::MAX);
    enough_files(&settings, limit)?;
    if let Some(page) = &bench.report {
        page.check()?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let document = runtime.block_on(until_told(&settings, program))?;
    let json = serde_json::to_string_pretty(&document)? + "\n";
    let text = if bench.json { json.clone() } else { table::render(&document) };
    std::io::stdout().write_all(text.as_bytes())?;
    let compared = document.targets.iter().skip(1).any(|target| target.cannot.is_none());
    if let Some(page) = &bench.report {
        // First what can't be made again.
        write(&page.json, &json)?;
        eprintln!("numbers: {}", page.json.display());
        page.write(&earlier().chain([document]).collect::<Vec<_>>())?;
    }
    ensure!(
        bench.targets.is_empty() || compared,
        "nothing was measured but direct calls: no target answered"
    );
    Ok(())
}

/// Who keeps a connection for every call at the same time needs so many files; a gate has two for each.
fn enough_files(settings: &Settings, limit: u64) -> Result<()> {
    let Pace::Open(_) = (settings.scenario.pace)(&settings.knobs) else { return Ok(()) };
    let calls = settings.knobs.calls as u64;
    ensure!(
        calls + SPARE_FILES <= limit,
        "{calls} calls may be open at once, and this system lets a process have {limit} files: raise that \
         (`ulimit -n {}`) or ask for fewer --calls",
        2 * calls + SPARE_FILES
    );
    if 2 * calls + SPARE_FILES > limit {
        eprintln!(
            "Note: a proxy has two files open for each call, and this system lets a process have {limit}: with {calls} \
             calls at once some may fail for want of them (`ulimit -n {}`).",
            2 * calls + SPARE_FILES
        );
    }
    Ok(())
}

impl Page {
    /// What would go wrong in the end is better known before the experiment.
    fn check(&self) -> Result<()> {
        if let Ok(read) = std::fs::read(&self.json) {
            let value: serde_json::Value = serde_json::from_slice(&read).unwrap_or_default();
            ensure!(
                read.is_empty() || (value["format"].is_u64() && value["scenario"].is_string()),
                "--report: the numbers would go to {}, which is there and is no report",
                self.json.display()
            );
        }
        for path in [&self.html, &self.json] {
            let was_there = path.exists();
            std::fs::OpenOptions::new()
                .append(true)
                .create(true)
                .open(path)
                .with_context(|| format!("--report: cannot write {}", path.display()))?;
            if !was_there {
                // Only tried; what is not removed now is written over later.
                let _gone_already = std::fs::remove_file(path);
            }
        }
        Ok(())
    }

    fn write(&self, documents: &[Document]) -> Result<()> {
        write(&self.html, &report::html(documents))?;
        eprintln!("report: {}", self.html.display());
        Ok(())
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// However this ends, the processes that it started are dropped, and so ended.
async fn until_told(settings: &Settings, program: &Path) -> Result<Document> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // Under `nohup` it is ignored, and to listen for it would undo that.
    let mut hangup = if ignores_hangup() { None } else { Some(signal(SignalKind::hangup())?) };
    let told = async {
        let hung_up = async {
            match &mut hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => anyhow!("interrupted"),
            _ = terminate.recv() => anyhow!("terminated"),
            _ = hung_up => anyhow!("hung up"),
        }
    };
    let progress = progress();
    let document = experiment::run_until(settings, program, &progress, told).await;
    progress.finish_and_clear();
    document
}

/// On standard error, and only where somebody looks.
fn progress() -> ProgressBar {
    let hidden = !std::io::stderr().is_terminal();
    let target = if hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(None, target);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} calls, {elapsed}: {msg}") {
        bar.set_style(style);
    }
    bar
}

pub fn settings(bench: &Bench, scenario: &str) -> Result<Settings> {
    let (Some(scenario), Some(sdk)) = (named(scenario), Sdk::named(&bench.sdk)) else {
        bail!("no scenario or no SDK of that name");
    };
    let knobs = Knobs::resolve(scenario, &bench.knobs).map_err(|why| anyhow!(why))?;
    if scenario.name == "prefix" && sdk.protocol == Protocol::Anthropic {
        bail!("`prefix` asks as an OpenAI SDK does: an Anthropic call says itself what is to be cached");
    }
    for (at, (name, _)) in bench.targets.iter().enumerate() {
        let taken = ["direct", "gate", "relay"].contains(&name.as_str());
        if taken || bench.targets[..at].iter().any(|(other, _)| other == name) {
            bail!("--target {name}: there is one of that name already");
        }
    }
    let (model, key) = match sdk.protocol {
        Protocol::OpenAi => ("gpt-5-mini", "OPENAI_API_KEY"),
        Protocol::Anthropic => ("claude-haiku-4-5", "ANTHROPIC_API_KEY"),
    };
    Ok(Settings {
        scenario,
        knobs,
        rounds: bench.rounds,
        seed: bench.seed,
        sdk,
        model: bench.model.clone().unwrap_or_else(|| model.to_owned()),
        fate_header: bench.fate_header.clone(),
        direct: bench.direct.clone(),
        latency_typed: bench.knobs.latency.is_some(),
        mock: bench.mock,
        targets: bench.targets.clone(),
        gate: !bench.no_gate,
        key: std::env::var(key).ok().filter(|key| !key.is_empty()),
    })
}

fn choice(scenario: &Scenario) -> PossibleValue {
    PossibleValue::new(scenario.name).help(scenario.title)
}

const TARGET: &str = "it has to be NAME=URL, such as other=http://127.0.0.1:4000/v1";

fn target(text: &str) -> Result<(String, Url), String> {
    match text.split_once('=') {
        Some((name, address)) if !name.trim().is_empty() => match url(address) {
            Ok(url) => Ok((name.trim().to_owned(), url)),
            Err(why) => Err(format!("`{address}`: {why}; {TARGET}")),
        },
        _ => Err(TARGET.to_owned()),
    }
}

/// A place that can't be written to is better known before the experiment than after it.
fn page(text: &str) -> Result<Page, String> {
    let html = PathBuf::from(text);
    let json = html.with_extension("json");
    let parent = html.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if html.file_name().is_none() || html.is_dir() || html == json {
        return Err("it has to be a file such as out.html".to_owned());
    }
    match parent.is_dir() {
        true => Ok(Page { html, json }),
        false => Err(format!("there is no directory {}", parent.display())),
    }
}

/// Read before the experiment: one that can't be shown is better known then.
fn earlier(text: &str) -> Result<Box<Document>, String> {
    let read = std::fs::read(text).map_err(|why| why.to_string())?;
    let document: Document =
        serde_json::from_slice(&read).map_err(|why| format!("it is no report of an experiment: {why}"))?;
    match document.format {
        FORMAT => Ok(Box::new(document)),
        other => Err(format!("it has the format {other}, and this version reads {FORMAT}")),
    }
}

fn url(text: &str) -> Result<Url, String> {
    let url: Url = text.trim().parse().map_err(|why| format!("no URL: {why}"))?;
    match url.scheme() {
        "http" | "https" if url.host().is_some() => Ok(url),
        _ => Err("it has to begin with http:// or https://".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        bench: Bench,
    }

    fn parse(arguments: &str) -> Result<Settings, String> {
        let words = std::iter::once("bench").chain(arguments.split_whitespace());
        let command = Command::try_parse_from(words).map_err(|error| error.to_string())?;
        let scenario = command.bench.scenario.clone().ok_or("no scenario")?;
        settings(&command.bench, &scenario).map_err(|error| error.to_string())
    }

    fn error(arguments: &str) -> String {
        parse(arguments).err().unwrap_or_else(|| panic!("{arguments} is accepted"))
    }

    #[test]
    fn bad_arguments_say_what_is_wrong() {
        for part in ["SCENARIO", "crowd", "A crowd with one question", "prefix"] {
            assert!(choose().contains(part), "{part}");
        }
        assert!(error("crowd --target foo=bar").contains("`bar`: no URL"));
        assert!(error("crowd --target foo=bar").contains("such as other=http://"));
        assert!(error("crowd --latency 2s --patience 2s").contains("--patience"));
        assert!(error("crowd --latency 90").contains("longer than --latency 90s"));
        assert!(error("croud").contains("crowd"));
        assert!(error("crowd --target here").contains("NAME=URL"));
        assert!(error("crowd --target a=ftp://there").contains("http://"));
        assert!(error("crowd --target gate=http://there").contains("already"));
        assert!(error("crowd --target a=http://b --target a=http://c").contains("already"));
        assert!(error("crowd --calls 0").contains("from 1"));
        assert!(error("crowd --latency soon").contains("unit"));
        assert!(error("crowd --rounds 0").contains("rounds"));
        assert!(error("crowd --sdk curl").contains("openai-python"));
        assert!(error("crowd --fate-header x:y").contains("fate-header"));
        assert!(error("crowd --fault 3s").contains("means nothing in `crowd`"));
        assert!(error("crowd --direct http://a --mock 127.0.0.1:1").contains("cannot be used with"));
        assert!(error("hang --endless --fault 3s").contains("cannot be used with"));
        assert!(error("crowd --report /nowhere/at/all.html").contains("no directory"));
        assert!(error("crowd --report out.json").contains("out.html"));
        assert!(error("crowd --report /").contains("out.html"));
        assert!(error("prefix --sdk anthropic-node").contains("OpenAI"));
    }

    #[test]
    fn what_is_typed_is_what_is_used() {
        let settings =
            parse("hang --endless --calls 7 --sdk anthropic-python --target a=http://b:1/v1").ok().unwrap();
        assert!(settings.knobs.endless);
        assert_eq!((settings.knobs.calls, settings.model.as_str()), (7, "claude-haiku-4-5"));
        assert_eq!(settings.targets[0].0, "a");
    }

    #[test]
    fn more_calls_than_files_are_refused() {
        let crowd = parse("crowd --calls 5000").ok().unwrap();
        let refused = enough_files(&crowd, 1024).unwrap_err().to_string();
        assert!(refused.contains("1024 files") && refused.contains("ulimit -n 10100"), "{refused}");
        enough_files(&crowd, 5100).unwrap();
        enough_files(&parse("overhead --calls 5000").ok().unwrap(), 1024).unwrap();
    }

    #[test]
    fn what_is_no_report_is_not_written_over_and_nothing_is_left_of_a_check() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let check = |name: &str| page(path(name).to_str().unwrap()).unwrap().check();
        check("out.html").unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        std::fs::write(path("package.json"), "{\"name\": \"mine\"}").unwrap();
        let refused = check("package.html").unwrap_err().to_string();
        assert!(refused.contains("package.json") && refused.contains("no report"), "{refused}");
        let report = Document { format: FORMAT, scenario: "crowd".to_owned(), ..Document::default() };
        let report = serde_json::to_string(&report).unwrap();
        std::fs::write(path("crowd.json"), &report).unwrap();
        check("crowd.html").unwrap();
        assert_eq!(std::fs::read_to_string(path("crowd.json")).unwrap(), report);
        // Whoever is root may write everywhere but over a directory.
        std::fs::create_dir(path("taken.json")).unwrap();
        assert!(check("taken.html").unwrap_err().to_string().contains("cannot write"));
    }

    #[test]
    fn help_says_how_times_are_written() {
        use clap::CommandFactory;
        assert!(Command::command().render_help().to_string().contains("a bare number is seconds"));
    }

    /// What the command does where nothing is measured.
    fn written(arguments: &[&str]) -> Result<()> {
        let words = std::iter::once("bench").chain(arguments.iter().copied());
        start(&Command::try_parse_from(words)?.bench, Path::new("/nowhere"))
    }

    #[test]
    fn earlier_experiments_make_a_page_in_the_order_in_which_they_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let titled =
            |title: &str| Document { format: FORMAT, title: title.to_owned(), ..Document::default() };
        for (name, title) in [("a.json", "Then"), ("b.json", "Later")] {
            std::fs::write(file(name), serde_json::to_string(&titled(title)).unwrap()).unwrap();
        }
        let (a, b, html) = (file("a.json"), file("b.json"), file("all.html"));
        written(&["--report", &html, "--with", &b, "--with", &a]).unwrap();
        let told = std::fs::read_to_string(&html).unwrap();
        assert!(told.find("Later").unwrap() < told.find("Then").unwrap());
        assert!(!directory.path().join("all.json").exists(), "there is no measurement to keep");

        let future = Document { format: FORMAT + 1, ..titled("Later") };
        std::fs::write(file("c.json"), serde_json::to_string(&future).unwrap()).unwrap();
        std::fs::write(file("d.json"), "[]").unwrap();
        for (name, why) in [("c.json", "format"), ("d.json", "no report"), ("e.json", "No such file")] {
            assert!(earlier(&file(name)).unwrap_err().contains(why), "{name}");
        }
        assert!(written(&["--with", &a]).unwrap_err().to_string().contains("--report"));
    }
}
