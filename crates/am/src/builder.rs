//! Registration: which messages there are, what handles them, and how they travel.

use std::any::type_name;
use std::ops::AddAssign;

use bytemuck::Pod;
use serde::Serialize;
use serde::de::DeserializeOwned;
use treepie_base::{Error, Rank, Result, fingerprint};
use treepie_comm::Comm;

use crate::agreement;
use crate::call::{self, Later};
use crate::config::Config;
use crate::context::Context;
use crate::handler::{self, Handler};
use crate::lane::Lane;
use crate::parcel;
use crate::port::{Call, MessageType, Parcel, Port, Target};
use crate::reduction::{Caches, Reducing};
use crate::runtime::{ActiveMessages, Machinery};
use crate::spawn;
use crate::tag::MOST_TYPES;
use crate::termination::{Counting, Detection, Detector, NbxLike};
use crate::trace::Trace;

/// A type as it is registered.
struct Type<S> {
    name: String,
    /// What its messages are.
    kind: &'static str,
    /// Bytes of a message; nothing if they differ.
    size: Option<usize>,
    handler: Option<Handler<S>>,
    /// The handler asks who sent a message.
    sourced: bool,
    caches: Option<Box<dyn Reducing>>,
    is_combined: bool,
    config: Option<Config>,
}

/// What a runtime is made of. All ranks register the same types in the same order.
///
/// Mistakes of the program in here, as two types of one name, are errors of [`start`](Self::start).
pub struct Builder<S> {
    comm: Comm,
    types: Vec<Type<S>>,
    config: Option<Config>,
    detector: Detector,
    memory: usize,
    trace: bool,
    spawning: Option<usize>,
    planted: Option<Planted>,
    fault: Option<Error>,
}

/// Mistakes that tests put in, to see that they are found.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A buffer is counted as sent a while after it was.
    CountsLate,
    /// What is in caches at the end is not sent.
    ForgetsCaches,
    /// The end is believed after one wave.
    OneWave,
    /// Messages of two epochs are not told apart.
    Untagged,
}

/// Bytes of deferred sends from which on bodies are slowed down, unless something else is said.
const MEMORY: usize = 4 << 20;

impl<S> Builder<S> {
    pub(crate) fn new(comm: &Comm) -> Self {
        Self {
            comm: comm.clone(),
            types: Vec::new(),
            config: None,
            detector: Detector::default(),
            memory: MEMORY,
            trace: false,
            spawning: None,
            planted: None,
            fault: None,
        }
    }

    fn refuse(&mut self, what: String) {
        self.fault.get_or_insert(Error::Algorithm(what));
    }

    fn add(&mut self, name: &str, kind: &'static str, size: Option<usize>) -> usize {
        if self.types.iter().any(|known| known.name == name) {
            self.refuse(format!("two message types are called `{name}`"));
        }
        if size == Some(0) {
            self.refuse(format!("messages of type `{name}` have no bytes; they need at least one"));
        }
        if self.types.len() >= MOST_TYPES {
            self.refuse(format!("`{name}` is a message type too many; there can be {MOST_TYPES}"));
        }
        let name = name.to_owned();
        let (handler, caches, config) = (None, None, None);
        self.types.push(Type { name, kind, size, handler, sourced: false, caches, is_combined: false, config });
        self.types.len() - 1
    }

    /// A type of plain-data messages. Names of types are unique.
    pub fn port<M: Pod>(&mut self, name: &str) -> Port<M> {
        Port::new(self.add(name, type_name::<M>(), Some(size_of::<M>())))
    }

    /// The same with an owner map, which says to whom a message goes.
    pub fn target<M: Pod, F: Fn(&M) -> Rank>(&mut self, name: &str, owner: F) -> Target<M, F> {
        Target::new(self.port(name), owner)
    }

    /// A type of messages of any length: whatever serde can write.
    pub fn parcel<T: Serialize + DeserializeOwned>(&mut self, name: &str) -> Parcel<T> {
        Parcel::new(self.add(name, type_name::<T>(), None))
    }

    /// A type of questions with answers. With each question goes a note, which comes back with the answer.
    pub fn call<Q: Pod, R: Pod, N: Pod>(&mut self, name: &str) -> Call<Q, R, N> {
        let question = self.add(name, type_name::<(N, Q)>(), Some(size_of::<N>() + size_of::<Q>()));
        let answer = format!("{name}/answer");
        let answer = self.add(&answer, type_name::<(N, R)>(), Some(size_of::<N>() + size_of::<R>()));
        self.types[question].sourced = true;
        Call::new(question, answer)
    }

    fn handle(&mut self, index: usize, handler: Handler<S>) {
        let name = self.types[index].name.clone();
        if self.types[index].handler.replace(handler).is_some() {
            self.refuse(format!("message type `{name}` has two handlers"));
        }
    }

    /// Handles messages one by one.
    pub fn on<M: Pod>(&mut self, port: impl Into<Port<M>>, handle: impl FnMut(&mut S, &mut Context<S>, M) + 'static) {
        self.handle(port.into().index, handler::one(handle));
    }

    /// Handles messages one by one, and asks ahead for the memory that a message will touch. The fastest form where that is
    /// scattered.
    pub fn on_touch<M: Pod, T: ?Sized>(
        &mut self,
        port: impl Into<Port<M>>,
        touch: impl for<'s> Fn(&'s S, &M) -> &'s T + 'static,
        handle: impl FnMut(&mut S, &mut Context<S>, M) + 'static,
    ) {
        self.handle(port.into().index, handler::touching(touch, handle));
    }

    /// Handles all messages of a buffer at once, in no particular order.
    pub fn on_batch<M: Pod>(
        &mut self,
        port: impl Into<Port<M>>,
        handle: impl FnMut(&mut S, &mut Context<S>, &[M]) + 'static,
    ) {
        self.handle(port.into().index, handler::batch(handle));
    }

    /// Handles messages one by one, with the rank that sent each.
    pub fn on_from<M: Pod>(
        &mut self,
        port: impl Into<Port<M>>,
        handle: impl FnMut(&mut S, &mut Context<S>, Rank, M) + 'static,
    ) {
        let index = port.into().index;
        self.types[index].sourced = true;
        self.handle(index, handler::sourced(handle));
    }

    /// Handles messages of any length.
    pub fn on_parcel<T: DeserializeOwned>(
        &mut self,
        parcel: Parcel<T>,
        handle: impl FnMut(&mut S, &mut Context<S>, T) + 'static,
    ) {
        let name = self.types[parcel.index].name.clone();
        self.handle(parcel.index, parcel::parcels(name, handle));
    }

    /// Answers questions, and takes answers: `then` gets the note and the answer, on the rank that asked.
    pub fn on_call<Q: Pod, R: Pod, N: Pod>(
        &mut self,
        call: Call<Q, R, N>,
        answer: impl FnMut(&mut S, &mut Context<S>, Q) -> R + 'static,
        then: impl FnMut(&mut S, &mut Context<S>, N, R) + 'static,
    ) {
        self.handle(call.question, call::answering(call, answer));
        self.handle(call.answer, call::continuing(then));
    }

    /// The same, and asks ahead for the memory that a question will touch.
    pub fn on_call_touch<Q: Pod, R: Pod, N: Pod, T: ?Sized>(
        &mut self,
        call: Call<Q, R, N>,
        touch: impl for<'s> Fn(&'s S, &Q) -> &'s T + 'static,
        answer: impl FnMut(&mut S, &mut Context<S>, Q) -> R + 'static,
        then: impl FnMut(&mut S, &mut Context<S>, N, R) + 'static,
    ) {
        self.handle(call.question, call::answering_touching(call, touch, answer));
        self.handle(call.answer, call::continuing(then));
    }

    /// Answers questions whose answers closures wait for: [`Context::ask`].
    pub fn on_ask<Q: Pod, R: Pod>(
        &mut self,
        call: Call<Q, R, Later>,
        answer: impl FnMut(&mut S, &mut Context<S>, Q) -> R + 'static,
    ) {
        self.handle(call.question, call::answering(call, answer));
        let then = |state: &mut S, context: &mut Context<S>, note: Later, result: R| {
            if let Some(then) = context.continuations.take(note) {
                then(state, context, bytemuck::bytes_of(&result));
            }
        };
        self.handle(call.answer, call::continuing(then));
    }

    /// Says that messages with the same key for the same rank may be combined on their way, and how. Whether that is done is a
    /// matter of the [configuration](Config::reductions); the handler must not notice a difference.
    pub fn combine<M: Pod>(
        &mut self,
        port: impl Into<Port<M>>,
        key: impl Fn(&M) -> u64 + 'static,
        combine: impl FnMut(&mut M, &M) + 'static,
    ) {
        let known = &mut self.types[port.into().index];
        known.caches = Some(Box::new(Caches::new(key, combine)));
        known.is_combined = true;
    }

    /// Says that of messages with the same key for the same rank only the one with the lowest value counts.
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

    /// The same for the highest value.
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

    /// Says that values of messages with the same key for the same rank may be added up.
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

    /// Says that of messages with the same key for the same rank one is enough.
    pub fn unique<M: Pod>(&mut self, port: impl Into<Port<M>>, key: impl Fn(&M) -> u64 + 'static) {
        self.combine(port, key, |_, _| ());
    }

    /// Lets closures be [spawned](Context::spawn) on other ranks. All ranks must run the same executable.
    pub fn allow_spawn(&mut self)
    where
        S: 'static,
    {
        if self.spawning.is_none() {
            let index = self.add("spawned", "closures", None);
            self.handle(index, spawn::spawned());
            self.spawning = Some(index);
        }
    }

    /// How messages of a type travel.
    pub fn configure(&mut self, what: impl MessageType, config: Config) {
        for index in what.indices() {
            self.types[index].config = Some(config.clone());
        }
    }

    /// How messages of those types travel of which nothing else is said. Without this, as the environment says (`TREEPIE_AM`).
    pub fn configure_all(&mut self, config: Config) {
        self.config = Some(config);
    }

    /// How ends of epochs are found.
    pub fn detector(&mut self, detector: Detector) {
        self.detector = detector;
    }

    /// From so many bytes of sends on that wait for slow neighbours, the body of an epoch is slowed down; handlers never are.
    pub fn memory(&mut self, bytes: usize) {
        self.memory = bytes;
    }

    /// Records what ranks do when; all of them or none. For [`ActiveMessages::write_trace`].
    pub fn trace(&mut self, is_recorded: bool) {
        self.trace = is_recorded;
    }

    #[doc(hidden)]
    pub fn plant(&mut self, mistake: Planted) {
        self.planted = Some(mistake);
    }

    /// What must be the same on all ranks, a line for each type.
    fn list(&self, all: &Config) -> Vec<String> {
        let describe = |known: &Type<S>| {
            let Type { name, kind, sourced, .. } = known;
            let size = known.size.map_or("any length".to_owned(), |size| format!("{size} bytes"));
            let config = known.config.as_ref().unwrap_or(all);
            let sourced = if *sourced { ", with who sent it" } else { "" };
            let combined = if known.is_combined { ", combined" } else { "" };
            format!("`{name}` ({kind}, {size}{sourced}{combined}, {config})")
        };
        let mut list: Vec<String> = self.types.iter().map(describe).collect();
        list.push(format!("the detector {:?}", self.detector));
        if self.trace {
            list.push("a trace".to_owned());
        }
        if self.spawning.is_some() {
            list.push(format!("executable {:016x}", fingerprint()));
        }
        list
    }

    /// Starts the runtime. All ranks call it.
    ///
    /// # Errors
    /// On all ranks, if they have registered different types: with the list of one and of another rank. On a rank whose
    /// registration cannot be, as with a type without handler; others then get [`Error::TypesDiffer`] as well.
    pub fn start(mut self) -> Result<ActiveMessages<S>> {
        let started = self.check().and_then(|all| Ok((self.lanes(&all)?, self.list(&all))));
        let (lanes, list) = match started {
            Ok((lanes, list)) => (Ok(lanes), list),
            Err(error) => {
                let list = vec![format!("nothing ({error})")];
                (Err(error), list)
            }
        };
        let agreed = agreement::agree(&self.comm, &list);
        let lanes = lanes?;
        agreed?;
        let (rank, ranks) = (self.comm.rank() as u32, self.comm.size() as u32);
        let mut context = Context::new(rank, ranks, lanes);
        context.spawning = self.spawning;
        if self.trace {
            let mut trace = Box::new(Trace::new(rank));
            // Engines count from when each rank began; all leave a barrier at about the same moment.
            self.comm.barrier()?;
            trace.begin_at(self.comm.now());
            context.trace = Some(trace);
        }
        context.forgets_caches = self.planted == Some(Planted::ForgetsCaches);
        let means = self.comm.means();
        let by_barrier = means.barrier && means.arrives_last;
        let mut detection = match self.detector {
            Detector::NbxLike => Detection::NbxLike(NbxLike::new(rank, ranks, by_barrier)),
            Detector::Auto if by_barrier => Detection::NbxLike(NbxLike::new(rank, ranks, true)),
            Detector::Auto | Detector::Counting => Detection::Counting(Counting::new(rank, ranks)),
        };
        if let Detection::Counting(counting) = &mut detection {
            counting.believes_one_wave = self.planted == Some(Planted::OneWave);
        }
        let handlers = self.types.into_iter().map(|known| known.handler.expect("checked above")).collect();
        let machinery = Machinery::new(handlers, context, detection, self.planted);
        Ok(ActiveMessages::new(self.comm, machinery, self.memory))
    }

    /// The configuration of types of which nothing else is said, if everything can be.
    fn check(&mut self) -> Result<Config> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        for known in &self.types {
            let refused = |what: &str| Err(Error::Algorithm(format!("message type `{}` {what}", known.name)));
            if known.handler.is_none() {
                return refused("has no handler");
            }
            if known.sourced && known.caches.is_some() {
                return refused(
                    "is combined, and its handler asks who sent a message: combined ones have several senders",
                );
            }
        }
        let all = self.config.clone().map_or_else(Config::from_environment, Ok)?;
        self.types.iter().filter_map(|known| known.config.as_ref()).chain([&all]).try_for_each(Config::check)?;
        Ok(all)
    }

    fn lanes(&mut self, all: &Config) -> Result<Vec<Lane>> {
        let (rank, ranks) = (self.comm.rank() as u32, self.comm.size() as u32);
        let record = self.comm.short_message();
        let lane = |known: &mut Type<S>| {
            let config = known.config.as_ref().unwrap_or(all);
            let kind = (known.size, known.sourced);
            Lane::new(known.name.clone(), rank, ranks, kind, config, known.caches.take(), record)
        };
        self.types.iter_mut().map(lane).collect()
    }
}
