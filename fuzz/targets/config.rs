//! No text of a configuration file panics; one that is refused says why.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = sluicegate::config::parse_text(text) {
        assert!(!error.to_string().is_empty());
    }
});
