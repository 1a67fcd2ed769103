//! The paths by which a test steers the mock and looks into it. They never count.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::time::timeout;

use std::time::Duration;

use super::body::MockBody;
use super::options::{MOST_CHUNKS, Tuning};
use super::recorder::MOST_REQUESTS;
use super::reply::JSON;
use super::shared::Shared;

const MOST_BODY: usize = 1 << 20;
const BODY_TIME: Duration = Duration::from_secs(10);

pub(crate) fn is_control(path: &str) -> bool {
    path.starts_with("/__")
}

pub(crate) async fn answer(shared: &Shared, head: &Parts, body: Incoming) -> Response<MockBody> {
    let body = match timeout(BODY_TIME, Limited::new(body, MOST_BODY).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        _ => return respond(Err("the body is too large or did not come".into())),
    };
    respond(steer(shared, head, &body))
}

fn steer(shared: &Shared, head: &Parts, body: &Bytes) -> Result<Option<Value>, String> {
    let value = match (&head.method, head.uri.path()) {
        (&Method::GET, "/__stats") => to_value(&shared.counters.snapshot())?,
        (&Method::POST, "/__reset") => {
            shared.reset();
            json!({})
        }
        (&Method::GET, "/__script") => json!({"script": shared.script().to_string()}),
        (&Method::POST, "/__script") => {
            let text = std::str::from_utf8(body).map_err(|_| "the script is no text")?;
            shared.set_script(text.parse()?);
            json!({"script": shared.script().to_string()})
        }
        (&Method::GET, "/__limits") => to_value(&*shared.tuning())?,
        (&Method::POST, "/__limits") => {
            shared.set_tuning(changed(&shared.tuning(), body)?);
            to_value(&*shared.tuning())?
        }
        (&Method::GET, "/__requests") => {
            let last = last_of(head.uri.query())?;
            json!({"requests": to_value(&shared.recorder.last(last))?})
        }
        _ => return Ok(None),
    };
    Ok(Some(value))
}

fn to_value(value: &impl serde::Serialize) -> Result<Value, String> {
    serde_json::to_value(value).map_err(|error| error.to_string())
}

/// The limits in force, with the fields of `body` over them; `null` unsets one.
fn changed(tuning: &Tuning, body: &[u8]) -> Result<Tuning, String> {
    let change: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let Value::Object(change) = change else {
        return Err("limits are an object, such as {\"latency\": \"1.5s\", \"rpm\": 60}".into());
    };
    let keeps_key = !change.contains_key("require_key");
    let mut fields = to_value(tuning)?;
    for (name, value) in change {
        fields[name] = value;
    }
    let mut changed: Tuning = serde_json::from_value(fields).map_err(|error| error.to_string())?;
    if !(1..=MOST_CHUNKS).contains(&changed.chunks) {
        return Err(format!("chunks: a stream has from 1 to {MOST_CHUNKS}"));
    }
    if keeps_key {
        // The key is never written out, so it is not among the fields.
        changed.require_key.clone_from(&tuning.require_key);
    }
    Ok(changed)
}

fn last_of(query: Option<&str>) -> Result<usize, String> {
    let Some(query) = query else { return Ok(MOST_REQUESTS) };
    let last = query.split('&').find_map(|pair| pair.strip_prefix("last="));
    last.and_then(|last| last.parse().ok()).ok_or_else(|| format!("`{query}` is not last=N"))
}

fn respond(result: Result<Option<Value>, String>) -> Response<MockBody> {
    let (status, value) = match result {
        Ok(Some(value)) => (StatusCode::OK, value),
        Ok(None) => (StatusCode::NOT_FOUND, json!({"error": PATHS})),
        Err(error) => (StatusCode::BAD_REQUEST, json!({"error": error})),
    };
    let mut response = Response::new(MockBody::whole(value.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    response
}

const PATHS: &str = "control paths are GET /__stats, POST /__reset, GET and POST /__script, \
                     GET and POST /__limits, GET /__requests?last=N";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_change_one_by_one_and_null_unsets() {
        let tuning = Tuning {
            rpm: Some(5),
            latency: Duration::from_secs(1),
            require_key: Some("k".into()),
            ..Tuning::default()
        };
        let after = changed(&tuning, br#"{"rpm": null, "tpm": 10, "first_byte": "20ms"}"#).unwrap();
        assert_eq!((after.rpm, after.tpm, after.latency), (None, Some(10), Duration::from_secs(1)));
        assert_eq!(after.first_byte, Some(Duration::from_millis(20)));
        assert_eq!(after.require_key.as_deref(), Some("k"));
        assert_eq!(changed(&after, br#"{"require_key": null}"#).unwrap().require_key, None);
    }

    #[test]
    fn wrong_limits_are_refused() {
        for body in
            ["", "[]", r#"{"rqm": 1}"#, r#"{"latency": "soon"}"#, r#"{"chunks": 0}"#, r#"{"rpm": -1}"#]
        {
            assert!(changed(&Tuning::default(), body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn requests_are_asked_for_by_number() {
        assert_eq!(last_of(None), Ok(MOST_REQUESTS));
        assert_eq!(last_of(Some("x=1&last=7")), Ok(7));
        assert!(last_of(Some("last=all")).is_err());
    }
}
