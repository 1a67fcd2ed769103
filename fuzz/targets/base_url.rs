//! Reading and joining an address never panics, gives a target that HTTP takes,
//! and loses no query.
//!
//! Input: one line each for the address, the path below it, and the query.

#![no_main]

use http::uri::PathAndQuery;
use libfuzzer_sys::fuzz_target;
use url::Url;
use wire::base::BaseUrl;
use wire::provider::KINDS;

fuzz_target!(|input: &str| {
    let mut lines = input.splitn(3, '\n');
    let address = lines.next().unwrap_or_default();
    let path = lines.next().unwrap_or_default();
    let query = lines.next().unwrap_or_default();
    for kind in KINDS {
        let Ok((base, _)) = BaseUrl::parse(address, kind) else { continue };
        assert!(!base.host().is_empty());
        assert!(base.uri().authority().is_some_and(|authority| authority == base.authority()));

        // A path that reaches this point was cut off at its query.
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let target = base.target(kind, path, Some(query));
        let own = Url::parse(address.trim()).expect("it was taken").query().unwrap_or_default().to_owned();
        let (_, joined) = target.split_once('?').unwrap_or((&target, ""));
        let expected: Vec<&str> = [&own, query].into_iter().filter(|part| !part.is_empty()).collect();
        assert_eq!(joined, expected.join("&"));

        assert!(target.starts_with('/'));
        assert_eq!(base.target(kind, path, None).contains('?'), !own.is_empty());
        if PathAndQuery::try_from(format!("/{path}?{query}")).is_ok() {
            assert!(PathAndQuery::try_from(&target).is_ok(), "{target}");
        }
    }
});
