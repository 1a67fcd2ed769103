//! `GET /v1/models` in front of several providers: one list of all that can be asked for, in the asker's shape.
//!
//! The default provider's models stand under their own names, the others' as `provider/model`, the aliases under
//! theirs: every name in the list works as a `model`. A provider that fails is left out; a list that lacks none is
//! kept for five minutes per credential. Where no provider gives a list, what the most telling one said is passed
//! on: a caller whose key is refused reads so, aliases or not. With one provider there is nothing to do here: its
//! own answer passes.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use guard::lanes::{Party, Priority, Ticket};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use wire::dialect::Shape;
use wire::provider::ClientCredential;

use super::{down, target, up};
use crate::admission::Admission;
use crate::attempt::{Landed, Plan, fly};
use crate::gateway::{Provider, Snapshot, hash_of};
use crate::refusal::{Refusal, Said};
use crate::upstream::Upload;
use crate::upstream::exchange::{Patience, chain};

const KEPT: Duration = Duration::from_secs(300);
/// Lists of different callers that are kept.
const LISTS: usize = 64;
/// For one provider's list.
const WAIT: Duration = Duration::from_secs(10);
/// Bytes of one provider's list.
const MOST: usize = 8 << 20;

/// Lists that were made under one configuration, by shape and caller.
#[derive(Default)]
pub(crate) struct Lists(Mutex<HashMap<(bool, u64), (Instant, Bytes)>>);

/// The list for this caller.
pub(crate) async fn list(
    snapshot: &Snapshot,
    shape: Shape,
    client: &Option<ClientCredential>,
    asked: &HeaderMap,
) -> Result<Bytes, Refusal> {
    let caller = client.as_ref().map_or(0, hash_of);
    let key = (shape == Shape::Anthropic, caller);
    let kept = &snapshot.lists;
    let now = Instant::now();
    if let Some((until, list)) = kept.0.lock().get(&key)
        && now < *until
    {
        return Ok(list.clone());
    }
    let fetches = snapshot.providers.iter().map(|provider| fetch(provider, shape, client, asked));
    let fetched = join_all(fetches).await;
    let default = target::default_of_shape(snapshot, shape);
    let mut entries: Vec<Value> =
        snapshot.aliases.keys().map(|name| entry(name, "sluicegate", shape)).collect();
    let mut listed = false;
    let mut troubles = Vec::new();
    for (provider, fetched) in snapshot.providers.iter().zip(fetched) {
        match fetched {
            Ok(models) => {
                listed = true;
                let prefix = (!Arc::ptr_eq(provider, default)).then_some(&*provider.name);
                entries.extend(models.into_iter().filter_map(|model| rename(model, prefix, provider, shape)));
            }
            Err(refusal) => {
                tracing::debug!(provider = %provider.name, error = refusal.message(), "no list of models");
                troubles.push((provider, refusal));
            }
        }
    }
    let whole = troubles.iter().all(|(_, trouble)| has_no_list(trouble));
    if !listed && let Some(trouble) = most_telling(troubles, default, shape) {
        let refused = !has_no_list(&trouble) && trouble.row().status.is_client_error();
        let unasked = matches!(trouble, Refusal::NoCredentials { .. });
        if entries.is_empty() || refused || unasked {
            return Err(trouble);
        }
    }
    let list = Bytes::from(envelope(entries, shape).to_string());
    if whole {
        let mut kept = kept.0.lock();
        kept.retain(|_, (until, _)| now < *until);
        if kept.len() < LISTS {
            kept.insert(key, (now + KEPT, list.clone()));
        }
    }
    Ok(list)
}

/// Whether that is how things stand with a provider, and no failure: nothing would change in five minutes.
fn has_no_list(trouble: &Refusal) -> bool {
    match trouble {
        Refusal::NoCredentials { .. } => true,
        Refusal::Said(said) => {
            matches!(said.status, StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED)
        }
        _ => false,
    }
}

/// What the asker is to read where no provider gave a list: of those that were asked, the word of the one that
/// it means by default, else of one that speaks its language, else of one that turned it away.
fn most_telling(
    troubles: Vec<(&Arc<Provider>, Refusal)>,
    default: &Arc<Provider>,
    shape: Shape,
) -> Option<Refusal> {
    let telling = |(provider, trouble): &(&Arc<Provider>, Refusal)| {
        let asked = !matches!(trouble, Refusal::NoCredentials { .. });
        let status = trouble.row().status;
        let turned_away = matches!(
            status,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS
        );
        let is_default = Arc::ptr_eq(provider, default);
        (asked, is_default, provider.config.kind.shape == shape, turned_away)
    };
    // Of equals the first one configured.
    let (provider, trouble) = troubles.into_iter().rev().max_by_key(telling)?;
    Some(match trouble {
        Refusal::Said(said) if provider.config.kind.shape != shape => Refusal::Said(said.retold()),
        other => other,
    })
}

/// One model that is an alias, where a single one is asked for.
pub(crate) fn alias(snapshot: &Snapshot, id: &str, shape: Shape) -> Option<Bytes> {
    snapshot.aliases.contains_key(id).then(|| Bytes::from(entry(id, "sluicegate", shape).to_string()))
}

async fn fetch(
    provider: &Arc<Provider>,
    shape: Shape,
    client: &Option<ClientCredential>,
    asked: &HeaderMap,
) -> Result<Vec<Value>, Refusal> {
    let kind = provider.config.kind;
    // A caller's own key is for the providers of its own protocol.
    let own = if kind.shape == shape { client } else { &None };
    let credential = up::credential(provider, own)?;
    let mut headers = HeaderMap::new();
    if kind.shape == shape
        && let Some(version) = asked.get("anthropic-version")
    {
        headers.insert("anthropic-version", version.clone());
    }
    up::address(&mut headers, provider);
    up::seal(&mut headers, provider, credential.as_ref());
    let query = (kind.shape == Shape::Anthropic).then_some("limit=1000");
    let mut request = Request::new(Upload::empty());
    *request.method_mut() = Method::GET;
    *request.uri_mut() = up::uri(provider, "/models", query)?;
    *request.headers_mut() = headers;
    let now = Instant::now();
    let patience = Patience {
        arrived: now,
        total: WAIT,
        connect: provider.config.timeouts.connect,
        first_byte: WAIT,
        stall: WAIT,
        callers_first_byte: false,
        callers_stall: false,
    };
    let plan = Plan {
        progress: Arc::default(),
        provider: provider.clone(),
        model: provider.standing.model("models"),
        request,
        passage: None,
        admission: Admission {
            ticket: Ticket {
                party: Party { key: 0, weight: 1, parallel: usize::MAX },
                target: None,
                bytes: 0,
                priority: Priority::High,
                deadline: Some(now + WAIT),
            },
            windowed: false,
            watched: None,
        },
        patience,
        since: now,
    };
    let mut landed = fly(plan).await.outcome?;
    let status = landed.head.status;
    let headers = std::mem::take(&mut landed.head.headers);
    let body = collect(landed, &patience).await?;
    if status.is_client_error() || status.is_server_error() {
        return Err(said(provider, status, headers, body));
    }
    let mut answer: Map<String, Value> = serde_json::from_slice(&body).unwrap_or_default();
    match answer.remove("data") {
        Some(Value::Array(models)) if status.is_success() => Ok(models),
        _ => Err(Refusal::Upstream { cause: format!("it answered {status} to a request for its models") }),
    }
}

/// A provider's own error, with the headers that any answer of a provider bears.
fn said(provider: &Provider, status: StatusCode, mut headers: HeaderMap, body: Vec<u8>) -> Refusal {
    down::strip(&mut headers);
    headers.insert("x-sluicegate-cache", HeaderValue::from_static("bypass"));
    headers.append("cache-status", HeaderValue::from_static("sluicegate; fwd=bypass"));
    headers.insert("x-sluicegate-provider", provider.name_value.clone());
    headers.insert("x-sluicegate-attempts", HeaderValue::from_static("1"));
    let provider = provider.config.name.clone();
    Refusal::Said(Box::new(Said { provider, status, headers, body: Some(body.into()) }))
}

async fn collect(mut landed: Landed, patience: &Patience) -> Result<Vec<u8>, Refusal> {
    let mut body: Vec<u8> = landed.pieces.iter().flatten().copied().collect();
    if let Some(rest) = &mut landed.rest {
        let all = async {
            while let Some(piece) = poll_fn(|cx| rest.poll_chunk(cx)).await {
                body.extend_from_slice(
                    &piece.map_err(|broken| Refusal::Upstream { cause: chain(&*broken) })?,
                );
                if body.len() > MOST {
                    return Err(Refusal::Upstream { cause: "its list of models is too long".to_owned() });
                }
            }
            Ok(())
        };
        tokio::time::timeout_at(patience.end(), all)
            .await
            .unwrap_or(Err(Refusal::Upstream { cause: "its list of models did not end".to_owned() }))?;
    }
    landed.trial.answered(landed.head.status, false);
    Ok(body)
}

/// A provider's entry under the name by which it can be asked for here, in the asker's shape.
fn rename(model: Value, prefix: Option<&str>, provider: &Provider, shape: Shape) -> Option<Value> {
    let id = model.get("id")?.as_str()?;
    let name = prefix.map_or_else(|| id.to_owned(), |prefix| format!("{prefix}/{id}"));
    if provider.config.kind.shape != shape {
        return Some(entry(&name, &provider.name, shape));
    }
    let mut model = model;
    *model.get_mut("id")? = Value::String(name);
    Some(model)
}

fn entry(name: &str, owner: &str, shape: Shape) -> Value {
    match shape {
        Shape::OpenAi => json!({"id": name, "object": "model", "created": 0, "owned_by": owner}),
        Shape::Anthropic => {
            json!({"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"})
        }
    }
}

fn envelope(entries: Vec<Value>, shape: Shape) -> Value {
    match shape {
        Shape::OpenAi => json!({"object": "list", "data": entries}),
        Shape::Anthropic => {
            let id = |entry: Option<&Value>| entry.and_then(|entry| entry.get("id")).cloned();
            json!({"first_id": id(entries.first()), "last_id": id(entries.last()), "has_more": false, "data": entries})
        }
    }
}
