//! The flags of `serve` and `check`, and the layer they make.

use std::path::PathBuf;

use serde_json::Value;

use super::layers::{Layer, Source};
use super::problem::Problem;
use super::variables::typed;

/// Each is a key of the configuration too. They are texts here, so that what is
/// wrong with them is reported in the same way and in the same go as the rest.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Flags {
    /// Configuration file [default: ./sluicegate.toml, where there is one]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address of the data plane [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Address of the admin plane [default: 127.0.0.1:9090]
    #[arg(long, value_name = "ADDR")]
    pub admin_listen: Option<String>,
    /// Directory of what outlives the process [default: sluicegate-data]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<String>,
    /// A provider and its base URL: NAME is a built-in one, or say NAME:KIND=URL
    #[arg(long = "provider", value_name = "NAME[:KIND]=URL")]
    pub providers: Vec<String>,
    /// Longest wait for the first byte of an answer [default: learned]
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<String>,
    /// Most calls in flight to each provider [default: 4096]
    #[arg(long, value_name = "N")]
    pub concurrency: Option<String>,
    /// Budget (not in this version yet)
    #[arg(long, value_name = "DOLLARS[/PERIOD]")]
    pub max_spend: Option<String>,
    /// `text` or `json` [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<String>,
    /// How much is logged [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<String>,
    /// Accept that whoever reaches `listen` spends the configured keys
    #[arg(long)]
    pub open: bool,
}

impl Flags {
    pub(super) fn layer(&self, schema: &Value, problems: &mut Vec<Problem>) -> Layer {
        let mut layer = Layer::default();
        let texts: [(&'static str, &[&str], &Option<String>); 8] = [
            ("--listen", &["listen"], &self.listen),
            ("--admin-listen", &["admin_listen"], &self.admin_listen),
            ("--data-dir", &["data_dir"], &self.data_dir),
            ("--timeout", &["timeouts", "first_byte"], &self.timeout),
            ("--concurrency", &["concurrency"], &self.concurrency),
            ("--max-spend", &["budget", "max_spend"], &self.max_spend),
            ("--log-format", &["log", "format"], &self.log_format),
            ("--log-level", &["log", "level"], &self.log_level),
        ];
        for (flag, path, text) in texts {
            if let Some(text) = text {
                let shape = path.iter().fold(schema, |node, key| &node["properties"][*key]);
                layer.put(&owned(path), typed(text, shape), &Source::Flag(flag));
            }
        }
        if self.open {
            layer.put(&owned(&["open"]), true.into(), &Source::Flag("--open"));
        }
        for text in &self.providers {
            if let Err(message) = provider(text, &mut layer) {
                problems.push(Problem::new(Source::Flag("--provider"), message));
            }
        }
        layer
    }
}

fn provider(text: &str, layer: &mut Layer) -> Result<(), String> {
    let source = Source::Flag("--provider");
    let (who, url) = text.split_once('=').ok_or("write NAME=URL or NAME:KIND=URL")?;
    let (name, kind) = match who.split_once(':') {
        Some((name, kind)) => (name, Some(kind)),
        None => (who, None),
    };
    if layer.tree.get("providers").is_some_and(|providers| providers.get(name).is_some()) {
        return Err(format!("`{}` is there twice", name.escape_debug()));
    }
    layer.put(&owned(&["providers", name, "base_url"]), url.into(), &source);
    if let Some(kind) = kind {
        layer.put(&owned(&["providers", name, "kind"]), kind.into(), &source);
    }
    Ok(())
}

fn owned(path: &[&str]) -> Vec<String> {
    path.iter().map(|segment| (*segment).to_owned()).collect()
}
