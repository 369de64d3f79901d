//! Registration of message types, their handlers and their configuration.

use std::any::type_name;
use std::ops::AddAssign;

use bytemuck::Pod;
use serde::Serialize;
use serde::de::DeserializeOwned;
use treepie_base::{Error, Rank, Result, fingerprint};
use treepie_comm::Comm;

use crate::agreement;
use crate::call;
use crate::config::Config;
use crate::context::{Context, ContinuationId};
use crate::handler::{self, Handler};
use crate::parcel;
use crate::port::{Call, MessageType, Parcel, Port, Target};
use crate::prefetching;
use crate::reduction::{DirectMappedCaches, ReductionCache};
use crate::runtime::{ActiveMessages, RuntimeState};
use crate::spawn;
use crate::tag::MAX_TYPES;
use crate::termination::{ConsensusDetector, Detector, FourCounterDetector, TerminationDetector};
use crate::trace::Trace;
use crate::type_channel::TypeChannel;

/// A registered message type.
struct RegisteredType<S> {
    name: String,
    /// The Rust type of its messages.
    kind: &'static str,
    /// Bytes of a message; nothing for variable length.
    size: Option<usize>,
    handler: Option<Handler<S>>,
    /// The handler takes the source of each message.
    needs_source: bool,
    caches: Option<Box<dyn ReductionCache>>,
    is_combined: bool,
    config: Option<Config>,
}

/// The registration of a runtime. All ranks register the same types in the same order.
///
/// [`start`](Self::start) returns the errors of the registration, such as two types of one name.
pub struct Builder<S> {
    comm: Comm,
    types: Vec<RegisteredType<S>>,
    config: Option<Config>,
    detector: Detector,
    memory_limit: usize,
    trace: bool,
    spawn_type: Option<usize>,
    injected_fault: Option<InjectedFault>,
    error: Option<Error>,
}

/// Faults that tests inject, to check that they are found.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// A buffer is counted some time after it was sent.
    LateSendCount,
    /// Caches are not flushed at the end.
    UnflushedCaches,
    /// Termination is concluded from one wave.
    SingleWave,
    /// Messages do not carry the number of their epoch.
    UntaggedEpochs,
}

/// Default bytes of queued sends above which bodies are throttled.
const DEFAULT_MEMORY_LIMIT: usize = 4 << 20;

impl<S> ActiveMessages<S> {
    /// Starts a registration.
    pub fn builder(comm: &Comm) -> Builder<S> {
        Builder::new(comm)
    }
}

impl<S> Builder<S> {
    fn new(comm: &Comm) -> Self {
        Self {
            comm: comm.clone(),
            types: Vec::new(),
            config: None,
            detector: Detector::default(),
            memory_limit: DEFAULT_MEMORY_LIMIT,
            trace: false,
            spawn_type: None,
            injected_fault: None,
            error: None,
        }
    }

    fn refuse(&mut self, what: String) {
        self.error.get_or_insert(Error::Algorithm(what));
    }

    fn register_type(&mut self, name: &str, kind: &'static str, size: Option<usize>) -> usize {
        if self.types.iter().any(|registered| registered.name == name) {
            self.refuse(format!("two message types are called `{name}`"));
        }
        if size == Some(0) {
            self.refuse(format!("messages of type `{name}` have no bytes; they need at least one"));
        }
        if self.types.len() >= MAX_TYPES {
            self.refuse(format!("`{name}` is a message type too many; there can be {MAX_TYPES}"));
        }
        let name = name.to_owned();
        let (handler, caches, config) = (None, None, None);
        self.types.push(RegisteredType {
            name,
            kind,
            size,
            handler,
            needs_source: false,
            caches,
            is_combined: false,
            config,
        });
        self.types.len() - 1
    }

    /// Registers a type of plain-data messages. Names of types are unique.
    pub fn port<M: Pod>(&mut self, name: &str) -> Port<M> {
        Port::new(self.register_type(name, type_name::<M>(), Some(size_of::<M>())))
    }

    /// Registers a type of plain-data messages with an owner map, which gives the destination of a message.
    pub fn target<M: Pod, F: Fn(&M) -> Rank>(&mut self, name: &str, owner: F) -> Target<M, F> {
        Target::new(self.port(name), owner)
    }

    /// Registers a type of variable-length messages: anything that serde can serialize.
    pub fn parcel<T: Serialize + DeserializeOwned>(&mut self, name: &str) -> Parcel<T> {
        Parcel::new(self.register_type(name, type_name::<T>(), None))
    }

    /// Registers a type of requests with replies. Each request carries a note of the caller, which returns with the
    /// reply.
    pub fn call<Q: Pod, R: Pod, N: Pod>(&mut self, name: &str) -> Call<Q, R, N> {
        let request = self.register_type(name, type_name::<(N, Q)>(), Some(size_of::<N>() + size_of::<Q>()));
        let reply_name = format!("{name}/reply");
        let reply = self.register_type(&reply_name, type_name::<(N, R)>(), Some(size_of::<N>() + size_of::<R>()));
        self.types[request].needs_source = true;
        Call::new(request, reply)
    }

    fn set_handler(&mut self, index: usize, handler: Handler<S>) {
        let name = self.types[index].name.clone();
        if self.types[index].handler.replace(handler).is_some() {
            self.refuse(format!("message type `{name}` has two handlers"));
        }
    }

    /// Handles messages one by one.
    pub fn on<M: Pod>(&mut self, port: impl Into<Port<M>>, handle: impl FnMut(&mut S, &mut Context<S>, M) + 'static) {
        self.set_handler(port.into().index, handler::message_handler(handle));
    }

    /// Handles messages one by one, and prefetches ahead the memory at the address that `address` returns for a
    /// message. The fastest form for scattered accesses.
    pub fn on_prefetch<M: Pod, T: ?Sized>(
        &mut self,
        port: impl Into<Port<M>>,
        address: impl for<'s> Fn(&'s S, &M) -> &'s T + 'static,
        handle: impl FnMut(&mut S, &mut Context<S>, M) + 'static,
    ) {
        self.set_handler(port.into().index, prefetching::prefetching_handler(address, handle));
    }

    /// Handles all messages of a buffer in one call, in no particular order.
    pub fn on_batch<M: Pod>(
        &mut self,
        port: impl Into<Port<M>>,
        handle: impl FnMut(&mut S, &mut Context<S>, &[M]) + 'static,
    ) {
        self.set_handler(port.into().index, handler::slice_handler(handle));
    }

    /// Handles messages one by one, with the source rank of each.
    pub fn on_from<M: Pod>(
        &mut self,
        port: impl Into<Port<M>>,
        handle: impl FnMut(&mut S, &mut Context<S>, Rank, M) + 'static,
    ) {
        let index = port.into().index;
        self.types[index].needs_source = true;
        self.set_handler(index, handler::source_handler(handle));
    }

    /// Handles variable-length messages.
    pub fn on_parcel<T: DeserializeOwned>(
        &mut self,
        parcel: Parcel<T>,
        handle: impl FnMut(&mut S, &mut Context<S>, T) + 'static,
    ) {
        let name = self.types[parcel.index].name.clone();
        self.set_handler(parcel.index, parcel::parcel_handler(name, handle));
    }

    /// Handles requests with `handler`, whose result is the reply; `then` gets the note and the reply on the calling
    /// rank.
    pub fn on_call<Q: Pod, R: Pod, N: Pod>(
        &mut self,
        call: Call<Q, R, N>,
        handler: impl FnMut(&mut S, &mut Context<S>, Q) -> R + 'static,
        then: impl FnMut(&mut S, &mut Context<S>, N, R) + 'static,
    ) {
        self.set_handler(call.request, call::request_handler(call, handler));
        self.set_handler(call.reply, call::reply_handler(then));
    }

    /// [`on_call`](Self::on_call) that prefetches ahead the memory at the address that `address` returns for a request.
    pub fn on_call_prefetch<Q: Pod, R: Pod, N: Pod, T: ?Sized>(
        &mut self,
        call: Call<Q, R, N>,
        address: impl for<'s> Fn(&'s S, &Q) -> &'s T + 'static,
        handler: impl FnMut(&mut S, &mut Context<S>, Q) -> R + 'static,
        then: impl FnMut(&mut S, &mut Context<S>, N, R) + 'static,
    ) {
        self.set_handler(call.request, call::prefetching_request_handler(call, address, handler));
        self.set_handler(call.reply, call::reply_handler(then));
    }

    /// Handles requests whose reply goes to a closure: [`Context::call_then`].
    pub fn on_call_then<Q: Pod, R: Pod>(
        &mut self,
        call: Call<Q, R, ContinuationId>,
        handler: impl FnMut(&mut S, &mut Context<S>, Q) -> R + 'static,
    ) {
        self.set_handler(call.request, call::request_handler(call, handler));
        let then = |state: &mut S, context: &mut Context<S>, note: ContinuationId, result: R| {
            if let Some(then) = context.continuations.take(note) {
                then(state, context, bytemuck::bytes_of(&result));
            }
        };
        self.set_handler(call.reply, call::reply_handler(then));
    }

    /// Lets messages with the same key and destination be combined by `combine`. The
    /// [configuration](Config::reductions) decides whether they are; the result must be the same for the handler.
    pub fn combine<M: Pod>(
        &mut self,
        port: impl Into<Port<M>>,
        key: impl Fn(&M) -> u64 + 'static,
        combine: impl FnMut(&mut M, &M) + 'static,
    ) {
        let registered = &mut self.types[port.into().index];
        registered.caches = Some(Box::new(DirectMappedCaches::new(key, combine)));
        registered.is_combined = true;
    }

    /// Combines messages with the same key and destination into the one with the lowest value.
    pub fn combine_min<M: Pod, V: PartialOrd + Copy>(
        &mut self,
        port: impl Into<Port<M>>,
        key: impl Fn(&M) -> u64 + 'static,
        value: impl Fn(&M) -> V + 'static,
    ) {
        self.combine(port, key, move |into, m| {
            if value(m) < value(into) {
                *into = *m;
            }
        });
    }

    /// Combines messages with the same key and destination into the one with the highest value.
    pub fn combine_max<M: Pod, V: PartialOrd + Copy>(
        &mut self,
        port: impl Into<Port<M>>,
        key: impl Fn(&M) -> u64 + 'static,
        value: impl Fn(&M) -> V + 'static,
    ) {
        self.combine(port, key, move |into, m| {
            if value(m) > value(into) {
                *into = *m;
            }
        });
    }

    /// Combines messages with the same key and destination by adding their values.
    pub fn combine_sum<M: Pod, V: AddAssign + Copy>(
        &mut self,
        port: impl Into<Port<M>>,
        key: impl Fn(&M) -> u64 + 'static,
        value: impl Fn(&mut M) -> &mut V + 'static,
    ) {
        self.combine(port, key, move |into, m| {
            let mut m = *m;
            *value(into) += *value(&mut m);
        });
    }

    /// Combines messages with the same key and destination into one of them.
    pub fn dedup_by_key<M: Pod>(&mut self, port: impl Into<Port<M>>, key: impl Fn(&M) -> u64 + 'static) {
        self.combine(port, key, |_, _| ());
    }

    /// Allows to [spawn](Context::spawn) closures on other ranks. All ranks must run the same executable.
    pub fn allow_spawn(&mut self)
    where
        S: 'static,
    {
        if self.spawn_type.is_none() {
            let index = self.register_type("spawned", "closures", None);
            self.set_handler(index, spawn::spawn_handler());
            self.spawn_type = Some(index);
        }
    }

    /// Sets the configuration of one message type.
    pub fn configure(&mut self, what: impl MessageType, config: Config) {
        for index in what.indices() {
            self.types[index].config = Some(config.clone());
        }
    }

    /// Sets the configuration of all other message types. The default is that of the environment (`TREEPIE_AM`).
    pub fn configure_all(&mut self, config: Config) {
        self.config = Some(config);
    }

    /// Sets the termination detector of epochs.
    pub fn detector(&mut self, detector: Detector) {
        self.detector = detector;
    }

    /// Sets the bytes of queued sends above which the body of an epoch is throttled; handlers never are.
    pub fn memory_limit(&mut self, bytes: usize) {
        self.memory_limit = bytes;
    }

    /// Records a trace, on all ranks or none, for [`ActiveMessages::write_trace`].
    pub fn trace(&mut self, enabled: bool) {
        self.trace = enabled;
    }

    #[doc(hidden)]
    pub fn inject_fault(&mut self, fault: InjectedFault) {
        self.injected_fault = Some(fault);
    }

    /// What must be the same on all ranks, one entry per type.
    fn list(&self, all: &Config) -> Vec<String> {
        let describe = |registered: &RegisteredType<S>| {
            let RegisteredType { name, kind, needs_source, .. } = registered;
            let size = registered.size.map_or("any length".to_owned(), |size| format!("{size} bytes"));
            let config = registered.config.as_ref().unwrap_or(all);
            let source = if *needs_source { ", with source" } else { "" };
            let combined = if registered.is_combined { ", combined" } else { "" };
            format!("`{name}` ({kind}, {size}{source}{combined}, {config})")
        };
        let mut list: Vec<String> = self.types.iter().map(describe).collect();
        list.push(format!("the detector {:?}", self.detector));
        if self.trace {
            list.push("a trace".to_owned());
        }
        if self.spawn_type.is_some() {
            list.push(format!("executable {:016x}", fingerprint()));
        }
        list
    }

    /// Starts the runtime. All ranks call it.
    ///
    /// # Errors
    /// [`Error::MessageTypeMismatch`] on all ranks if their registered types differ, with the lists of two ranks.
    /// [`Error::Algorithm`] on a rank with an invalid registration, such as a type without handler; the others then get
    /// [`Error::MessageTypeMismatch`].
    pub fn start(mut self) -> Result<ActiveMessages<S>> {
        let started = self.check().and_then(|all| Ok((self.build_channels(&all)?, self.list(&all))));
        let (channels, list) = match started {
            Ok((channels, list)) => (Ok(channels), list),
            Err(error) => {
                let list = vec![format!("nothing ({error})")];
                (Err(error), list)
            }
        };
        let agreed = agreement::verify_same_types(&self.comm, &list);
        let channels = channels?;
        agreed?;
        let (rank, ranks) = (self.comm.rank() as u32, self.comm.size() as u32);
        let mut context = Context::new(rank, ranks, channels);
        context.spawn_type = self.spawn_type;
        if self.trace {
            let mut trace = Box::new(Trace::new(rank));
            // The engine's clock starts with each rank; all ranks leave a barrier at about the same time.
            self.comm.barrier()?;
            trace.begin_at(self.comm.now());
            context.sends.trace = Some(trace);
        }
        context.sends.skip_cache_flush = self.injected_fault == Some(InjectedFault::UnflushedCaches);
        let capabilities = self.comm.capabilities();
        let has_ordered_barrier = capabilities.barrier && capabilities.barrier_flushes;
        let mut detector = match self.detector {
            Detector::Consensus => {
                TerminationDetector::Consensus(ConsensusDetector::new(rank, ranks, has_ordered_barrier))
            }
            Detector::Auto if has_ordered_barrier => {
                TerminationDetector::Consensus(ConsensusDetector::new(rank, ranks, true))
            }
            Detector::Auto | Detector::FourCounter => {
                TerminationDetector::FourCounter(FourCounterDetector::new(rank, ranks))
            }
        };
        if let TerminationDetector::FourCounter(four_counter) = &mut detector {
            four_counter.skip_second_wave = self.injected_fault == Some(InjectedFault::SingleWave);
        }
        let handlers = self.types.into_iter().map(|registered| registered.handler.expect("checked above")).collect();
        let runtime = RuntimeState::new(handlers, context, detector, self.injected_fault);
        Ok(ActiveMessages::new(self.comm, runtime, self.memory_limit))
    }

    /// Checks the registration. Returns the configuration of types without their own.
    fn check(&mut self) -> Result<Config> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        for registered in &self.types {
            let refused = |what: &str| Err(Error::Algorithm(format!("message type `{}` {what}", registered.name)));
            if registered.handler.is_none() {
                return refused("has no handler");
            }
            if registered.needs_source && registered.caches.is_some() {
                return refused(
                    "is combined, and its handler asks who sent a message: combined ones have several senders",
                );
            }
        }
        let all = self.config.clone().map_or_else(Config::from_environment, Ok)?;
        self.types
            .iter()
            .filter_map(|registered| registered.config.as_ref())
            .chain([&all])
            .try_for_each(Config::check)?;
        Ok(all)
    }

    fn build_channels(&mut self, all: &Config) -> Result<Vec<TypeChannel>> {
        let (rank, ranks) = (self.comm.rank() as u32, self.comm.size() as u32);
        let eager_limit = self.comm.eager_limit();
        let channel = |registered: &mut RegisteredType<S>| {
            let config = registered.config.as_ref().unwrap_or(all);
            let kind = (registered.size, registered.needs_source);
            TypeChannel::new(registered.name.clone(), rank, ranks, kind, config, registered.caches.take(), eager_limit)
        };
        self.types.iter_mut().map(channel).collect()
    }
}
