//! Protocols of all ranks of a communicator, for crates above this one: state machines ([`Reactor`]) that run as one
//! collective operation each. What they are called is known here, so that handles and the environment can name them.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use treepie_base::{Error, Result};
use treepie_fabric::{Reactor, Why};

use crate::collective::choose::log_choices;
pub use crate::collective::store_and_forward::{Route, StoreAndForward};
use crate::comm::Comm;
use crate::reactor::{Running, Shortcuts};
use crate::request::{Finish, Request};
pub use crate::run::ProtocolRun;
use crate::split::Way;

/// Protocols that [`Comm::using`] and `TREEPIE_ALGORITHM` can name: what they are called, and what they do.
pub const PROTOCOLS: &[(&str, &str)] = &[
    ("exchange/auto", "the one of these that is cheapest for what exchanges were like so far"),
    ("exchange/pex", "sizes for all ranks by an all-to-all exchange, then the data"),
    ("exchange/pcx", "numbers of messages by a reduce-scatter of ones, then the data"),
    ("exchange/rsx", "numbers of messages by remote counters and a fence, then the data"),
    ("exchange/nbx", "synchronous sends and a nonblocking barrier"),
    ("exchange/nbx:condition=1", "the same with plain sends, where a barrier is behind all messages"),
    ("exchange/nbx:condition=2", "the same with a barrier over all channels, which is part of the messages"),
    ("exchange/crystal", "store and forward over powers of two, many messages in one"),
    ("split/auto", "the one of these that takes least for so many ranks"),
    ("split/allgather_sort", "all get all colours and keys, and sort their own"),
    ("split/merge", "all get all colours and keys, and merge after each step"),
    ("split/parallel_sort", "a parallel sort with exact splitters, then all get the table; :sorters=P"),
    ("split/distributed", "the same sort, and ranks share the table; :sorters=P"),
    ("split/overlapped", "splitters that are about right, sending and merging at once; a shared table; :sorters=P"),
    ("split/quick", "a quicksort of one entry on each rank; a shared table; :sorters=P share it"),
];

/// Refuses a name of no protocol; nothing if it is none of a protocol at all.
pub(crate) fn check_name(id: &str) -> Option<Result<()>> {
    let family = |id: &str| id.split('/').next().map(str::to_owned);
    if !PROTOCOLS.iter().any(|(known, _)| family(known) == family(id)) {
        return None;
    }
    if id.starts_with("split/") && id != "split/auto" {
        return Some(Way::parse(id, 1).map(drop));
    }
    let known: Vec<&str> =
        PROTOCOLS.iter().map(|(known, _)| *known).filter(|known| family(known) == family(id)).collect();
    if known.contains(&id) {
        return Some(Ok(()));
    }
    Some(Err(Error::Algorithm(format!("there is no protocol `{id}`; there are {}", known.join(", ")))))
}

/// Says what was chosen, once and where choices are to be logged.
pub fn log_choice(comm: &Comm, what: impl fmt::Display) {
    if log_choices() && comm.rank() == 0 {
        eprintln!("treepie: {what}");
    }
}

/// What there is beside messages for a protocol that runs alone on a communicator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Means {
    /// A barrier of the engine's: [`Reactor::poll_arrive`].
    pub barrier: bool,
    /// Everything that was sent before the barrier is handed in before it is over.
    pub arrives_last: bool,
    /// A counter at each rank: [`Reactor::poll_add`].
    pub counters: bool,
}

impl Comm {
    /// What a protocol that runs alone may use. The same on all ranks.
    pub fn means(&self) -> Means {
        // A rank that gives up the comparison of calls never comes to the engine's barrier, and others may.
        if self.is_checked() {
            return Means::default();
        }
        let offers = self.endpoint().fabric().offers();
        let barrier = self.is_of_all() && self.context() / 2 < offers.cells;
        Means {
            barrier,
            arrives_last: barrier && offers.arrives_last,
            // There are two of them at each rank, which one communicator alone can keep apart.
            counters: barrier && offers.counters && self.context() == 0,
        }
    }

    /// The id to use for a family of protocols, as `exchange`, if the handle or the environment names one.
    pub fn asked_protocol(&self, family: &str) -> Result<Option<&str>> {
        self.collectives.choice.id_of(family)
    }

    /// Runs a protocol to its end, as one collective operation: all ranks call it, with reactors that understand each
    /// other. `meanwhile` is called whenever messages may have been handed in, and may use the communicator for messages, not
    /// for operations of all ranks. Memory of messages is aligned like `align`. Gives the reactor back.
    pub fn run_protocol<R: Reactor>(&self, reactor: R, align: usize, mut meanwhile: impl FnMut(&mut R)) -> Result<R> {
        let mut run = self.begin_protocol(reactor, align)?;
        loop {
            let came = run.step()?;
            meanwhile(run.reactor());
            if run.is_over() {
                return Ok(run.into_reactor());
            }
            if came {
                run.stir();
            } else {
                run.wait();
            }
        }
    }

    /// Begins a protocol that goes on beside the caller, and may not use any [`means`](Self::means). `finish` makes the
    /// result of the reactor when it is done.
    pub fn start_protocol<R: Reactor + 'static, T: 'static>(
        &self,
        reactor: R,
        align: usize,
        finish: impl Fn(&mut R) -> Result<T> + 'static,
    ) -> Request<'static, T> {
        let announced = self.announce(|| format!("nonblocking {}", reactor.name()));
        let instance = self.next_instance();
        let running = self.running(reactor, instance).aligned(align);
        let running = Rc::new(RefCell::new(running));
        let id = self.spawn(announced, running.clone(), None);
        let take = move || finish(running.borrow_mut().reactor_mut());
        Request::new(self, id, Finish::Kept(Box::new(take)))
    }

    /// Takes part in a protocol only to give it up, so that the others do not wait for this rank. `alone`: they run it, and
    /// do not start it.
    pub fn give_up_protocol<R: Reactor>(&self, reactor: R, alone: bool) {
        if self.compares() {
            return self.compare_refused(|| reactor.name().to_owned());
        }
        let instance = self.next_instance();
        let shortcuts = if alone { self.shortcuts() } else { None };
        self.running(reactor, instance).with_shortcuts(shortcuts).abandon(&mut self.endpoint(), Why::Unsaid);
    }

    /// What a crate above keeps with this communicator: one of each type, made when it is first asked for.
    pub fn attachment<T: Default + 'static>(&self) -> Rc<T> {
        let mut all = self.inner.attachments.borrow_mut();
        if let Some(found) = all.iter().find_map(|kept| kept.clone().downcast().ok()) {
            return found;
        }
        let new = Rc::<T>::default();
        all.push(new.clone());
        new
    }

    /// How many ranks of the world there are for each core, if they are on one machine. The same on all ranks.
    pub fn ranks_per_core(&self) -> Option<f64> {
        let endpoint = self.endpoint();
        endpoint.cores().map(|cores| f64::from(endpoint.size()) / f64::from(cores.max(1)))
    }

    pub(crate) fn running<R: Reactor>(&self, reactor: R, instance: u32) -> Running<R> {
        Running::new(reactor, self.own_context(), instance).among(self.inner.members.clone())
    }

    /// All ranks run the same protocols alone, in the same order, so they agree about the counter. None is in the next but
    /// one before all have read theirs of this one.
    pub(crate) fn shortcuts(&self) -> Option<Shortcuts> {
        // Nor may it be one behind then.
        if self.is_checked() {
            return None;
        }
        let means = self.means();
        let run = self.inner.protocols.get().wrapping_add(1);
        self.inner.protocols.set(run);
        let counter = means.counters.then_some((run % 2, run));
        means.barrier.then_some(Shortcuts { cell: self.context() / 2, counter })
    }
}
