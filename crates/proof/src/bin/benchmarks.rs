//! `benchmarks [FILE…]`: keeps measurements under `docs/benchmarks`, and writes `docs/benchmarks.md` from them.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;
use proof::page::Docs;

#[derive(Parser)]
#[command(about = "Writes docs/benchmarks.md from its template and the measurements beside it", version)]
struct Arguments {
    /// Where the documentation lies
    #[arg(long, value_name = "DIRECTORY", default_value = "docs")]
    docs: PathBuf,
    /// New measurements: what `proof --json` or `sluicegate bench --json` printed
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let docs = Docs(arguments.docs);
    for file in &arguments.files {
        for said in docs.keep(file)? {
            eprintln!("benchmarks: {said}");
        }
    }
    let page = docs.page();
    std::fs::write(&page, docs.render()?).with_context(|| format!("cannot write {}", page.display()))
}
