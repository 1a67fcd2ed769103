//! Starting: with nothing at hand it serves and explains itself; what can't work is said, and the process ends.

use std::net::TcpListener;
use std::time::Instant;

use crate::child::{Gate, Mock, Running};
use crate::client::{Client, chat};
use crate::until::{millis, secs};

const FREE: [&str; 5] = ["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];

/// Runs until the process has ended with exit code 1, and returns what it said.
async fn refused(arguments: &[&str], file: Option<&str>) -> String {
    let files: Vec<_> = file.map(|text| ("sluicegate.toml", text)).into_iter().collect();
    let mut process = Running::start(arguments, &[], &files);
    assert_eq!(process.exit(secs(10)).await, Some(1));
    // The readers of its pipes are threads of their own.
    process.says("sluicegate").await;
    process.log()
}

#[tokio::test]
async fn without_a_key_and_without_a_file_it_explains_itself_in_five_lines() {
    let gate = Gate::up(Running::start(&FREE, &[], &[])).await;
    let last = gate.process.says("Ctrl-C").await;
    let log = gate.process.log();
    assert_eq!(log.lines().position(|line| line == last), Some(4), "{log}");
    for part in [
        &format!("http://{}", gate.at),
        &format!("admin http://{}", gate.admin),
        "openai (the caller's own key), anthropic (the caller's own key)",
        &format!("base URL http://{}/v1", gate.at),
        "sluicegate check",
    ] {
        assert!(log.contains(part), "{part} is not in\n{log}");
    }
    assert_eq!(gate.admin("/readyz").await, 200);
}

#[tokio::test]
async fn keys_in_the_environment_are_named_and_not_shown() {
    let environment = [("OPENAI_API_KEY", "sk-secret-1"), ("GROQ_API_KEY", "gsk-secret-2")];
    let gate = Gate::up(Running::start(&FREE, &environment, &[])).await;
    gate.process.says("openai (key from").await;
    gate.process.says("Ctrl-C").await;
    let log = gate.process.log();
    assert!(log.contains("OPENAI_API_KEY") && log.contains("groq (key from"), "{log}");
    assert!(!log.contains("secret"), "{log}");
}

#[tokio::test]
async fn the_first_answer_comes_soon_after_the_start() {
    let mock = Mock::start(&[]).await;
    // The measure is half a second for a debug binary on a shared machine; the quickest of three counts.
    let mut quickest = secs(60);
    for _ in 0..3 {
        let start = Instant::now();
        let gate = Gate::before(&mock, "").await;
        assert_eq!(Client::connect(gate.at).await.send(chat("hello", false)).await.status, 200);
        quickest = quickest.min(start.elapsed());
    }
    assert!(quickest < millis(500), "{quickest:?}");
}

#[tokio::test]
async fn a_bad_configuration_names_its_line_and_the_right_spelling() {
    let said = refused(&FREE, Some("drain = \"5s\"\n\n[timeouts]\nconect = \"1s\"\n")).await;
    for part in ["sluicegate.toml:4", "conect", "`connect`"] {
        assert!(said.contains(part), "{part} is not in\n{said}");
    }
}

#[tokio::test]
async fn a_setting_of_a_later_version_is_refused_and_not_ignored() {
    let said = refused(&FREE, Some("[budget]\nmax_spend = \"5/day\"\n")).await;
    assert!(said.contains("sluicegate.toml:") && said.contains("budget"), "{said}");
}

#[tokio::test]
async fn a_missing_file_and_a_missing_secret_are_named() {
    let said = refused(&["serve", "--config", "nowhere.toml"], None).await;
    assert!(said.contains("nowhere.toml"), "{said}");
    let said = refused(&FREE, Some("[providers.openai]\napi_key = \"env:NO_SUCH_KEY\"\n")).await;
    assert!(said.contains("NO_SUCH_KEY") && said.contains("sluicegate.toml:2"), "{said}");
}

#[tokio::test]
async fn an_occupied_port_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    for (listen, admin) in [(at.as_str(), "127.0.0.1:0"), ("127.0.0.1:0", at.as_str())] {
        let said = refused(&["serve", "--listen", listen, "--admin-listen", admin], None).await;
        assert!(said.contains(&at) && said.to_lowercase().contains("in use"), "{said}");
    }
}

#[tokio::test]
async fn an_open_gate_beyond_loopback_needs_a_word() {
    let beyond = ["serve", "--listen", "0.0.0.0:0", "--admin-listen", "127.0.0.1:0"];
    let keyed = "[providers.openai]\napi_key = \"sk-1\"\n";
    let said = refused(&beyond, Some(keyed)).await;
    assert!(said.contains("--open"), "{said}");
    let opened = [&beyond[..], &["--open"]].concat();
    Running::start(&opened, &[], &[("sluicegate.toml", keyed)]).says("Ctrl-C").await;
}

#[tokio::test]
async fn an_admin_plane_beyond_loopback_needs_a_token() {
    let said = refused(&["serve", "--listen", "127.0.0.1:0", "--admin-listen", "0.0.0.0:0"], None).await;
    assert!(said.contains("admin.token") || said.contains("SLUICEGATE_ADMIN_TOKEN"), "{said}");
}
