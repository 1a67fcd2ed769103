//! `GET /v1/models` in front of several providers: one list of all that can be asked for, in the asker's shape.
//!
//! The default provider's models stand under their own names, the others' as `provider/model`, the aliases under
//! theirs: every name in the list works as a `model`. A provider that does not answer is left out; the list is
//! kept for five minutes per credential. With one provider there is nothing to do here: its own answer passes.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use guard::lanes::{Priority, Ticket};
use http::{HeaderMap, Method, Request};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use wire::dialect::Shape;
use wire::provider::ClientCredential;

use super::{target, up};
use crate::attempt::{Landed, Plan, fly};
use crate::gateway::{Provider, Snapshot, hash_of};
use crate::refusal::Refusal;
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
    let mut failure = None;
    for (provider, fetched) in snapshot.providers.iter().zip(fetched) {
        match fetched {
            Ok(models) => {
                let prefix = (!Arc::ptr_eq(provider, default)).then_some(&*provider.name);
                entries.extend(models.into_iter().filter_map(|model| rename(model, prefix, provider, shape)));
            }
            Err(refusal) => {
                tracing::debug!(provider = %provider.name, error = refusal.message(), "no list of models");
                // The provider that the asker means by default has the word.
                if failure.is_none() || Arc::ptr_eq(provider, default) {
                    failure = Some(refusal);
                }
            }
        }
    }
    if let (true, Some(failure)) = (entries.is_empty(), failure) {
        return Err(failure);
    }
    let list = Bytes::from(envelope(entries, shape).to_string());
    let mut kept = kept.0.lock();
    kept.retain(|_, (until, _)| now < *until);
    if kept.len() < LISTS {
        kept.insert(key, (now + KEPT, list.clone()));
    }
    Ok(list)
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
        provider: provider.clone(),
        model: provider.standing.model("models"),
        request,
        ticket: Ticket { key: 0, priority: Priority::High, deadline: Some(now + WAIT) },
        patience,
    };
    let landed = fly(plan).await.outcome?;
    let status = landed.head.status;
    let body = collect(landed, &patience).await?;
    let mut answer: Map<String, Value> = serde_json::from_slice(&body).unwrap_or_default();
    match answer.remove("data") {
        Some(Value::Array(models)) if status.is_success() => Ok(models),
        _ => Err(Refusal::Upstream { cause: format!("it answered {status} to a request for its models") }),
    }
}

async fn collect(mut landed: Landed, patience: &Patience) -> Result<Vec<u8>, Refusal> {
    let mut body: Vec<u8> = landed.pieces.iter().flatten().copied().collect();
    if let Some(rest) = &mut landed.rest {
        let all = async {
            while let Some(piece) = poll_fn(|cx| rest.poll_chunk(cx)).await {
                body.extend_from_slice(&piece.map_err(|broken| Refusal::Upstream { cause: chain(&broken) })?);
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
