//! Protocols, for crates above this one: state machines ([`Reactor`]) that each run as one collective operation. A
//! crate declares its own ([`ProtocolFamily`]), so that errors, handles and the environment can name them.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::OnceLock;

use treepie_base::{Error, Result, environment};
pub use treepie_fabric::ProtocolFamily;
use treepie_fabric::{AbortReason, Reactor};

pub use crate::collective::store_and_forward::{ForwardingScheme, StoreAndForward};
use crate::comm::Comm;
pub use crate::dissemination::{Disseminated, Dissemination, RingPosition};
pub use crate::protocol_run::ProtocolRun;
use crate::reactor_task::{EngineServices, ReactorTask};
use crate::request::{Finish, Request};
use crate::split::SplitAlgorithm;

/// The protocols of this crate.
pub static PROTOCOLS: ProtocolFamily = ProtocolFamily {
    place: 0,
    protocols: &[
        ("a comparison of calls in checked mode", ""),
        ("an exchange by store and forward", ""),
        ("split/auto", "the cheapest of these by the profile"),
        ("split/allgather_sort", "allgather of all colors and keys, then a local sort"),
        ("split/merge", "allgather of all colors and keys, merged after each step"),
        ("split/parallel_sort", "a parallel sort with exact splitters, then an allgather of the table; :sorters=P"),
        ("split/distributed", "the same sort with a shared table; :sorters=P"),
        ("split/overlapped", "approximate splitters, sending and merging overlapped; a shared table; :sorters=P"),
        ("split/quick", "a quicksort with one entry per rank; a shared table; :sorters=P ranks share it"),
    ],
};

/// Refuses an unknown protocol id; `None` if no registered protocol has an id that begins like it.
pub(crate) fn check_name(id: &str) -> Option<Result<()>> {
    PROTOCOLS.register();
    if id.starts_with("split/") && id != "split/auto" {
        return Some(SplitAlgorithm::parse(id, 1).map(drop));
    }
    let known = || ProtocolFamily::all_protocols().map(|(known, _)| known);
    let known: Vec<&str> = known().filter(|known| known.split('/').next() == id.split('/').next()).collect();
    if known.is_empty() {
        return None;
    }
    if known.contains(&id) {
        return Some(Ok(()));
    }
    Some(Err(Error::Algorithm(format!("there is no protocol `{id}`; there are {}", known.join(", ")))))
}

pub(crate) fn log_choices() -> bool {
    static LOG: OnceLock<bool> = OnceLock::new();
    *LOG.get_or_init(|| environment::log_choices().unwrap_or(false))
}

/// Logs a choice on rank 0, if choices are to be logged.
pub fn log_choice(comm: &Comm, what: impl fmt::Display) {
    if log_choices() && comm.rank() == 0 {
        eprintln!("treepie: {what}");
    }
}

fn find_or_create<T: Default + 'static>(attributes: &mut Vec<Rc<dyn Any>>) -> Rc<T> {
    if let Some(found) = attributes.iter().find_map(|attribute| attribute.clone().downcast().ok()) {
        return found;
    }
    let new = Rc::<T>::default();
    attributes.push(new.clone());
    new
}

/// Engine capabilities besides messages for a protocol that runs exclusively on its communicator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReactorCapabilities {
    /// A barrier of the engine: [`Reactor::poll_barrier`].
    pub barrier: bool,
    /// All messages sent before the barrier are delivered before it completes.
    pub barrier_flushes: bool,
    /// A counter on each rank: [`Reactor::poll_increment`].
    pub counters: bool,
}

impl Comm {
    /// The capabilities that a protocol may use if it runs exclusively. The same on all ranks.
    pub fn capabilities(&self) -> ReactorCapabilities {
        // A rank that aborts the comparison of calls never arrives at the engine's barrier, but others may.
        if self.is_checked() {
            return ReactorCapabilities::default();
        }
        let engine = self.endpoint().fabric().capabilities();
        let barrier = self.is_whole_world() && self.context() / 2 < engine.barrier_cells;
        ReactorCapabilities {
            barrier,
            barrier_flushes: barrier && engine.barrier_orders_messages,
            // Each rank has two of them, which only one communicator can use safely.
            counters: barrier && engine.counters && self.context() == 0,
        }
    }

    /// The id set for a family of protocols, for example `exchange`, by the handle or the environment.
    pub fn requested_protocol(&self, family: &str) -> Result<Option<&str>> {
        self.collectives.choice.id_for_family(family)
    }

    /// Runs a protocol to completion, as one collective operation: all ranks call it, with matching reactors.
    /// `meanwhile` is called whenever messages may have been delivered; it may use the communicator for messages, but
    /// not for collective operations. Memory of messages is aligned to `align`. Returns the reactor.
    pub fn run_protocol<R: Reactor>(&self, reactor: R, align: usize, mut meanwhile: impl FnMut(&mut R)) -> Result<R> {
        let mut run = self.begin_protocol(reactor, align)?;
        loop {
            let progressed = run.step()?;
            meanwhile(run.reactor());
            if run.is_complete() {
                return Ok(run.into_reactor());
            }
            if progressed {
                run.reset_backoff();
            } else {
                run.wait();
            }
        }
    }

    /// Starts a protocol in the background, which may not use any [`capabilities`](Self::capabilities). `finish`
    /// extracts the result of the reactor on completion.
    pub fn start_protocol<R: Reactor + 'static, T: 'static>(
        &self,
        reactor: R,
        align: usize,
        finish: impl Fn(&mut R) -> Result<T> + 'static,
    ) -> Request<'static, T> {
        let announced = self.announce(|| format!("nonblocking {}", reactor.name()));
        let instance = self.next_instance();
        let mut running = self.reactor_task(reactor, instance);
        running.align = align;
        let running = Rc::new(RefCell::new(running));
        let id = self.spawn(announced, running.clone(), None);
        let take = move || finish(running.borrow_mut().reactor_mut());
        Request::new(self, id, Finish::Deferred(Box::new(take)))
    }

    /// Takes part in a protocol only to abort it, so that the others do not wait for this rank. `exclusive`: the others
    /// run it and do not start it in the background.
    pub fn abort_protocol<R: Reactor>(&self, reactor: R, exclusive: bool) {
        if self.needs_comparison() {
            return self.compare_refused_call(|| reactor.name().to_owned());
        }
        let instance = self.next_instance();
        let mut running = self.reactor_task(reactor, instance);
        running.services = if exclusive { self.engine_services() } else { None };
        running.abort_with(&mut self.endpoint(), AbortReason::Unspecified);
    }

    /// The attribute of type `T` of this communicator, created at its first use (attribute caching).
    pub fn attribute<T: Default + 'static>(&self) -> Rc<T> {
        find_or_create(&mut self.inner.attributes.borrow_mut())
    }

    /// The attribute of type `T` of this handle: for what depends on its network, its profile or its algorithms.
    pub fn handle_attribute<T: Default + 'static>(&self) -> Rc<T> {
        find_or_create(&mut self.collectives.attributes.borrow_mut())
    }

    /// Number of world ranks per core, if all are on one machine. The same on all ranks.
    pub fn ranks_per_core(&self) -> Option<f64> {
        let endpoint = self.endpoint();
        endpoint.cores().map(|cores| f64::from(endpoint.size()) / f64::from(cores.max(1)))
    }

    #[inline]
    pub(crate) fn reactor_task<R: Reactor>(&self, reactor: R, instance: u32) -> ReactorTask<R> {
        let mut task = ReactorTask::new(reactor, self.collective_context(), instance);
        task.members = Some(self.inner.members.clone());
        task
    }

    /// All ranks run the same exclusive protocols in the same order, so they agree on the counter. No rank starts the
    /// next but one before all have read their counters of this one.
    pub(crate) fn engine_services(&self) -> Option<EngineServices> {
        // In checked mode the counter could be one behind.
        if self.is_checked() {
            return None;
        }
        let capabilities = self.capabilities();
        let run = self.inner.protocol_runs.get().wrapping_add(1);
        self.inner.protocol_runs.set(run);
        let counter = capabilities.counters.then_some((run % 2, run));
        capabilities.barrier.then_some(EngineServices { barrier_cell: self.context() / 2, counter })
    }
}
