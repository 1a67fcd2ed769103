//! Everything that lives as long as the process, and the snapshot of the configuration that a call runs under.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use foldhash::fast::RandomState as FastHash;
use guard::lanes::{Lane, Limits};
use guard::tape::Budget;
use guard::timing::Timing;
use guard::window::{Settings, Wave, Window};
use http::{HeaderValue, Uri};
use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;
use wire::dialect::{DIALECTS, Dialect, ENDPOINTS};
use wire::fingerprint::digest;
use wire::provider::Credential;
use wire::translate::Crossing;

use crate::call::text_value;
use crate::config::{self, CacheWhen, Config, HttpVersion, ProviderConfig};
use crate::flight::Board;
use crate::kept::Cache;
use crate::net::life::{Life, Step};
use crate::observe::{
    Bus, Event, GateGauges, GaugeLevels, Metrics, Observer, ProviderGauges, TargetHandles, WindowLimits,
};
use crate::stage::gate;
use crate::stage::models::Lists;
use crate::tasks::Tasks;
use crate::upstream::exchange::Route;
use crate::upstream::h2::H2Pool;
use crate::upstream::pool::Pool;
use crate::world::World;

/// How often resting connections are looked through.
const SWEEP: Duration = Duration::from_secs(10);
/// Locks of the board of flights.
const SHARDS: usize = 64;
/// Bytes that all flights together may hold for those who come late.
const ALL_TAPES: usize = 256 << 20;
/// Models of one provider whose waits are learned apart; the rest share one history.
const MODELS: usize = 200;

/// The process.
pub struct Gateway {
    pub(crate) world: World,
    pub(crate) observer: Arc<Observer>,
    /// Where the process stands between start and end.
    pub life: Life,
    /// All tasks.
    pub tasks: Tasks,
    /// The door of the whole process, where there is one.
    pub(crate) door: Arc<Lane>,
    /// The flights that equal calls can come aboard.
    pub(crate) board: Arc<Board>,
    /// What all of them may hold in memory.
    pub(crate) tapes: Arc<Budget>,
    /// Answers that are kept.
    pub(crate) kept: Cache,
    snapshot: ArcSwap<Snapshot>,
    /// What survives a reload, by what makes an account.
    standing: Mutex<HashMap<Account, Arc<Standing>>>,
}

/// What calls run under until the configuration changes; a call keeps the one it began with.
pub struct Snapshot {
    /// The configuration.
    pub config: Arc<Config>,
    /// In the order of the configuration.
    pub providers: Vec<Arc<Provider>>,
    /// Alias to provider (index) and the model's name there.
    pub aliases: HashMap<Box<str>, (usize, Box<str>)>,
    pub(crate) lists: Lists,
    /// Some calls may share a flight or an answer.
    pub(crate) shares: bool,
    /// Some providers are called with the callers' own credentials.
    pub(crate) forwards: bool,
}

/// One configured provider, ready to use.
pub struct Provider {
    /// As configured.
    pub config: Arc<ProviderConfig>,
    /// The key that replaces the client's, where there is one.
    pub credential: Option<Credential>,
    pub(crate) name: Arc<str>,
    pub(crate) name_value: HeaderValue,
    pub(crate) host: HeaderValue,
    /// Tells this account from all others: the same for two calls only if one could pay for the other.
    pub(crate) account: [u8; 32],
    /// Where it serves each of the endpoints that have a protocol of their own.
    pub(crate) uris: [Option<Uri>; ENDPOINTS.len()],
    /// Models with a bound of their own, by name: as the lane knows them.
    caps: HashMap<Box<str>, u64>,
    pub(crate) standing: Arc<Standing>,
}

/// What is held for the sake of equal calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    /// Flights that others can come aboard.
    pub flights: usize,
    /// Bytes of answers that are on their way.
    pub tape_bytes: usize,
    /// Bytes of answers that are kept for later callers.
    pub kept_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Account {
    provider: String,
    base: String,
    /// Enough to tell two keys apart.
    key: Option<u64>,
    h2: bool,
}

/// What is known of a provider account and lasts through reloads.
pub struct Standing {
    /// Its concurrency cap and queue.
    pub lane: Arc<Lane>,
    /// Where flights gather before they queue, if they do.
    pub window: Arc<Window>,
    /// How it is reached.
    pub route: Route,
    pub(crate) handles: Arc<TargetHandles>,
    /// Where what happens at it is told, live.
    pub(crate) bus: Bus,
    models: RwLock<HashMap<Arc<str>, Arc<Model>, FastHash>>,
    others: Arc<Model>,
}

/// One model of one provider account.
pub struct Model {
    /// Its name; empty for what stands for many.
    pub(crate) name: Arc<str>,
    /// The name as headers tell it.
    pub(crate) value: HeaderValue,
    /// From the request to the first byte.
    pub first_byte: Timing,
    /// The longest silence within each answer.
    pub stall: Timing,
    reasons: AtomicBool,
}

impl Model {
    fn new(name: &str) -> Model {
        let [first_byte, stall] = [const { Timing::new() }; 2];
        Model {
            name: name.into(),
            value: text_value(name),
            first_byte,
            stall,
            reasons: AtomicBool::new(false),
        }
    }

    /// The model has thought before it spoke; it may be silent for longer.
    pub(crate) fn note_reasoning(&self) {
        self.reasons.store(true, Ordering::Relaxed);
    }

    /// How long the first byte may take.
    pub(crate) fn first_byte_limit(&self) -> Duration {
        self.first_byte.deadline(Duration::from_secs(10), Duration::from_secs(120))
    }

    /// How long an answer may pause.
    pub(crate) fn stall_limit(&self) -> Duration {
        let floor = if self.reasons.load(Ordering::Relaxed) { 120 } else { 20 };
        self.stall.deadline(Duration::from_secs(floor), Duration::from_secs(120))
    }
}

impl Standing {
    /// Books a wave that has left the window, if one has.
    pub(crate) fn flushed(&self, wave: Option<Wave>) {
        let Some(Wave { size, cause }) = wave else { return };
        self.handles.wave(size, cause);
        self.bus.publish(|| Event::Flushed { provider: self.handles.provider().clone(), size, cause });
    }

    /// What is known of a model, by the name under which it is asked for; once there are many, one that stands
    /// for all others.
    pub(crate) fn model(&self, name: &str) -> Arc<Model> {
        if let Some(known) = self.models.read().get(name) {
            return known.clone();
        }
        let mut models = self.models.write();
        if models.len() >= MODELS && !models.contains_key(name) {
            return self.others.clone();
        }
        let new = || Arc::new(Model::new(name));
        models.entry(name.into()).or_insert_with(new).clone()
    }
}

impl Gateway {
    /// A gate that runs under `config`. It does not listen yet.
    pub fn new(config: Arc<Config>, world: World, observer: Arc<Observer>) -> Arc<Gateway> {
        let gate = Arc::new_cyclic(|gate: &std::sync::Weak<Gateway>| {
            let gauges = gate.clone();
            observer.metrics().read_gauges_from(move || {
                gauges.upgrade().map_or_else(GaugeLevels::default, |gate| gate.gauges())
            });
            observer.bus().tell_time_by(world.wall);
            Gateway {
                world,
                observer,
                life: Life::default(),
                tasks: Tasks::default(),
                snapshot: ArcSwap::from_pointee(Snapshot {
                    config: config.clone(),
                    providers: Vec::new(),
                    aliases: HashMap::new(),
                    lists: Lists::default(),
                    shares: false,
                    forwards: false,
                }),
                door: Lane::new(gate::limits(&config.gate)),
                board: Board::new(SHARDS),
                tapes: Budget::new(ALL_TAPES),
                kept: Cache::new(config.cache.max_bytes),
                standing: Mutex::default(),
            }
        });
        gate.adopt(config);
        gate
    }

    /// The configuration that a call beginning now runs under.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Runs under `config` from now on. Lanes are resized in place; connections, queues and what was learned
    /// stay with each account that is still there.
    pub fn adopt(&self, config: Arc<Config>) {
        let mut known = self.standing.lock();
        let mut kept = HashMap::new();
        let mut providers = Vec::with_capacity(config.providers.len());
        for provider in &config.providers {
            let account = Account::of(provider);
            let standing = match known.get(&account) {
                Some(standing) => {
                    standing.lane.resize(limits(provider));
                    standing.flushed(standing.window.resize(settings(&provider.window), Instant::now()));
                    standing.clone()
                }
                None => Arc::new(self.standing(provider)),
            };
            kept.insert(account, standing.clone());
            let provider = Provider::new(provider.clone(), standing);
            provider.cap();
            providers.push(Arc::new(provider));
        }
        // Nobody comes any more to what is configured no longer; who waits there for company goes.
        for (account, gone) in std::mem::replace(&mut *known, kept) {
            if !known.contains_key(&account) {
                gone.flushed(gone.window.close());
            }
        }
        let aliases = config
            .models
            .iter()
            .filter_map(|alias| {
                let at = config.providers.iter().position(|provider| provider.name == alias.provider)?;
                Some((alias.name.as_str().into(), (at, alias.model.as_str().into())))
            })
            .collect();
        self.kept.resize(config.cache.max_bytes);
        let shares = config
            .providers
            .iter()
            .any(|provider| provider.coalesce.enabled || provider.cache.when != CacheWhen::Never);
        let forwards = providers.iter().any(|provider| provider.credential.is_none());
        self.door.resize(gate::limits(&config.gate));
        let lists = Lists::default();
        self.snapshot.store(Arc::new(Snapshot { config, providers, aliases, lists, shares, forwards }));
    }

    /// Begins to drain: calls are no longer welcome, and nobody waits in a window any more.
    pub fn drain(&self) {
        self.life.advance(Step::Draining);
        let known = self.standing.lock();
        for standing in known.values() {
            standing.flushed(standing.window.close());
        }
    }

    /// What equal calls share at this moment.
    pub fn shared(&self) -> Shared {
        Shared { flights: self.board.len(), tape_bytes: self.tapes.used(), kept_bytes: self.kept.bytes() }
    }

    fn standing(&self, provider: &ProviderConfig) -> Standing {
        Standing {
            lane: Lane::new(limits(provider)),
            window: Window::new(settings(&provider.window)),
            route: Route {
                base: provider.base.clone(),
                pool: Arc::new(Pool::default()),
                h2: (provider.http == HttpVersion::Two).then(|| Arc::new(H2Pool::default())),
                connector: self.world.connector.clone(),
                tasks: self.tasks.clone(),
            },
            handles: self.observer.metrics().target(&provider.name),
            bus: self.observer.bus().clone(),
            models: RwLock::default(),
            others: Arc::new(Model::new("")),
        }
    }

    fn gauges(&self) -> GaugeLevels {
        let snapshot = self.snapshot();
        let gauge = |provider: &Arc<Provider>| {
            let stats = provider.standing.lane.stats();
            let window = provider.config.window;
            ProviderGauges {
                provider: provider.name.clone(),
                in_flight: stats.in_flight as u64,
                waiting: stats.waiting as u64,
                permits: stats.permits as u64,
                window: provider.standing.window.fill(),
                window_limits: window
                    .enabled
                    .then_some(WindowLimits { size: window.max_size, time: window.max_wait }),
                queue_bytes: stats.waiting_bytes,
                stands: stats.stands,
            }
        };
        GaugeLevels {
            providers: snapshot.providers.iter().map(gauge).collect(),
            gate: (snapshot.config.gate.max_in_flight > 0).then(|| {
                let door = self.door.stats();
                GateGauges { in_flight: door.in_flight as u64, waiting: door.waiting as u64 }
            }),
            cache_bytes: self.kept.bytes(),
        }
    }

    /// Whether calls are welcome.
    pub fn ready(&self) -> Result<(), &'static str> {
        match self.life.step() {
            Step::Running => Ok(()),
            _ => Err("draining"),
        }
    }

    /// The metrics of all calls.
    pub fn metrics(&self) -> Arc<Metrics> {
        self.observer.metrics().clone()
    }

    /// The live events of all calls.
    pub fn bus(&self) -> &Bus {
        self.observer.bus()
    }

    /// Closes connections that rest for too long, until the gate has closed.
    pub async fn sweep(self: Arc<Self>) {
        let mut tick = tokio::time::interval(SWEEP);
        let closing = self.life.closing();
        while closing.run_until_cancelled(tick.tick()).await.is_some() {
            for provider in &self.snapshot().providers {
                provider.standing.route.pool.sweep(Instant::now());
            }
            self.kept.sweep();
        }
    }
}

impl Provider {
    fn new(config: Arc<ProviderConfig>, standing: Arc<Standing>) -> Provider {
        let uri = |op| Uri::try_from(config.base.target(config.kind, op, None)).ok();
        Provider {
            account: digest(format!("{:?}", Account::of(&config)).as_bytes()),
            uris: ENDPOINTS.map(uri),
            credential: config.api_key.as_ref().and_then(|key| Credential::key(config.kind, key.expose())),
            name: config.name.as_str().into(),
            name_value: text_value(&config.name),
            host: text_value(config.base.authority()),
            caps: config.caps.iter().map(|(model, _)| (model.as_str().into(), hash_of(model))).collect(),
            standing,
            config,
        }
    }

    /// Gives its lane the bounds of single models.
    fn cap(&self) {
        for (model, most) in &self.config.caps {
            self.standing.lane.cap(hash_of(model), Some(*most));
        }
        self.standing.lane.uncap_all_but(&self.caps.values().copied().collect::<Vec<_>>());
    }

    /// The model as its lane knows it, where it has a bound of its own.
    pub(crate) fn capped(&self, model: &str) -> Option<u64> {
        if self.caps.is_empty() { None } else { self.caps.get(model).copied() }
    }

    /// Whether the provider can be asked in this protocol.
    pub(crate) fn speaks(&self, dialect: &str) -> bool {
        dialect == "opaque" || self.config.kind.speaks.contains(&dialect)
    }

    /// How a client of this protocol is understood there, where it is not spoken.
    pub(crate) fn crossing(&self, client: &dyn Dialect) -> Option<Crossing> {
        let spoken = |dialect: &&&dyn Dialect| self.config.kind.speaks.contains(&dialect.name());
        DIALECTS.iter().filter(spoken).find_map(|dialect| Crossing::between(client, *dialect))
    }

    /// Whether the provider answers without a credential: it says so, or it is a machine of our own.
    pub(crate) fn needs_no_key(&self) -> bool {
        self.config.kind.keyless || (!self.config.base.https() && self.config.base.is_local())
    }
}

impl Account {
    fn of(provider: &ProviderConfig) -> Account {
        Account {
            provider: provider.name.clone(),
            base: provider.base.to_string(),
            key: provider.api_key.as_ref().map(|key| hash_of(&key.expose())),
            h2: provider.http == HttpVersion::Two,
        }
    }
}

fn limits(provider: &ProviderConfig) -> Limits {
    let queue = provider.queue;
    Limits {
        permits: provider.concurrency,
        max_waiting: queue.max,
        max_bytes: queue.max_bytes,
        per_key: queue.per_key,
    }
}

/// One that is off is full with anybody: those inside when it was switched off go, and so does who is only just
/// entering.
fn settings(window: &config::Window) -> Settings {
    Settings { max_size: if window.enabled { window.max_size } else { 1 }, max_wait: window.max_wait }
}

/// A number that is the same for equal values within this process.
pub(crate) fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
