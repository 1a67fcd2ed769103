//! Which provider a call goes to, and under which name it asks for its model there.

use std::sync::Arc;

use wire::dialect::{Dialect, Shape};
use wire::translate::Crossing;

use crate::gateway::{Provider, Snapshot};
use crate::refusal::Refusal;

/// A provider, and the model's name there where it differs from what was asked for.
pub(crate) struct Target {
    pub(crate) provider: Arc<Provider>,
    pub(crate) model: Option<Box<str>>,
    /// The path there, where it names a model by a name of ours.
    pub(crate) op: Option<String>,
    /// The provider speaks another protocol than the caller.
    pub(crate) crossing: Option<Crossing>,
    /// The provider can't count, and the gate does it in its stead, for requests of this protocol.
    pub(crate) counts: Option<&'static dyn Dialect>,
}

impl Target {
    fn of(provider: &Arc<Provider>, model: Option<&str>) -> Target {
        Target {
            provider: provider.clone(),
            model: model.map(Box::from),
            op: None,
            crossing: None,
            counts: None,
        }
    }
}

/// Chooses by path, alias, `provider/model`, the model's family, and last the protocol's default.
pub(crate) fn choose(
    snapshot: &Snapshot,
    dialect: &'static dyn Dialect,
    to: Option<&str>,
    model: Option<&str>,
) -> Result<Target, Refusal> {
    if let Some(name) = to {
        let provider = by_name(snapshot, name)
            .ok_or_else(|| Refusal::ProviderUnknown { name: name.chars().take(100).collect() })?;
        return Ok(Target::of(provider, None));
    }
    let mut target = match model.filter(|model| !model.is_empty()).and_then(|model| by_model(snapshot, model))
    {
        Some(target) => target,
        None => Target::of(default_for(snapshot, dialect)?, None),
    };
    if dialect.name() == "models" {
        target.op = target.model.as_ref().map(|model| format!("/models/{model}"));
    }
    if !target.provider.speaks(dialect.name()) {
        target.crossing = target.provider.crossing(dialect);
        target.counts = dialect.counts().filter(|counted| target.provider.crossing(*counted).is_some());
        if target.crossing.is_none() && target.counts.is_none() {
            let provider = target.provider.config.name.clone();
            return Err(Refusal::NotSpoken { protocol: dialect.name(), provider });
        }
    }
    Ok(target)
}

fn by_model(snapshot: &Snapshot, model: &str) -> Option<Target> {
    if let Some((at, name)) = snapshot.aliases.get(model) {
        return Some(Target::of(&snapshot.providers[*at], Some(name)));
    }
    if let Some((prefix, name)) = model.split_once('/')
        && let Some(provider) = by_name(snapshot, prefix)
    {
        return Some(Target::of(provider, Some(name)));
    }
    let of_family = |provider: &&Arc<Provider>| {
        provider.config.kind.families.iter().any(|family| model.starts_with(family))
    };
    let mut family = snapshot.providers.iter().filter(of_family);
    let first = family.next()?;
    let provider = std::iter::once(first).chain(family).find(|one| one.config.default).unwrap_or(first);
    Some(Target::of(provider, None))
}

/// The provider that takes what names no other one.
pub(crate) fn default_for<'a>(
    snapshot: &'a Snapshot,
    dialect: &dyn Dialect,
) -> Result<&'a Arc<Provider>, Refusal> {
    let fits = |provider: &&Arc<Provider>| {
        provider.speaks(dialect.name())
            && (dialect.name() != "opaque" || provider.config.kind.shape == dialect.shape())
    };
    let default = |fits: &dyn Fn(&&'a Arc<Provider>) -> bool| {
        let mut fitting = snapshot.providers.iter().filter(fits);
        fitting.clone().find(|provider| provider.config.default).or_else(|| fitting.next())
    };
    default(&fits)
        .or_else(|| default(&|provider| provider.crossing(dialect.counts().unwrap_or(dialect)).is_some()))
        .ok_or(Refusal::ModelUnknown { protocol: dialect.name() })
}

/// The provider whose models are known by their bare names to askers of this shape.
pub(crate) fn default_of_shape(snapshot: &Snapshot, shape: Shape) -> &Arc<Provider> {
    let mut fitting = snapshot.providers.iter().filter(|provider| provider.config.kind.shape == shape);
    let default = fitting.clone().find(|provider| provider.config.default).or_else(|| fitting.next());
    // The configuration has at least one provider: with none named it has the two public ones.
    default.unwrap_or(&snapshot.providers[0])
}

fn by_name<'a>(snapshot: &'a Snapshot, name: &str) -> Option<&'a Arc<Provider>> {
    snapshot.providers.iter().find(|provider| provider.config.name == name)
}
