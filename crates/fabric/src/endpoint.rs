//! The endpoint of a rank: the engine, and matching and protocols above it.
//!
//! The path of a message: [`send`](Endpoint::send) passes short messages to the engine eagerly, as long as the receiver
//! has credit for them. Others use rendezvous: the sender sends an RTS and the data stays in its buffer. The receiver's
//! [`progress`](Endpoint::progress) polls its engine and matches what arrives. After the match the engine transfers the
//! data memory to memory, or the sender streams it in records after a CTS.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use treepie_base::{BuildNumberHasher, environment};

use crate::backoff::Backoff;
use crate::blocking_recv::RecvPollGate;
use crate::endpoint_state::EndpointState;
use crate::engine::Fabric;
use crate::tasks::Tasks;

/// A group of ranks of the world.
pub trait RankGroup {
    /// The number of ranks.
    fn ranks(&self) -> u32;
    /// Whether the group contains a rank, if that is known.
    fn contains(&self, rank: u32) -> Option<bool>;
}

/// The endpoint of a rank: the engine, and matching and protocols above it.
pub struct Endpoint {
    pub(crate) fabric: Box<dyn Fabric>,
    pub(crate) state: EndpointState,
    pub(crate) eager_limit: usize,
    /// The engine's liveness epoch at the last failure check; none if there was none.
    pub(crate) seen_liveness_epoch: Option<u32>,
    pub(crate) tasks: Tasks,
    pub(crate) stall: Option<Duration>,
    pub(crate) settle_backoff: Backoff,
    /// This rank has finalized, and its engine is gone.
    pub(crate) finalized: bool,
    next_context: u32,
    pub(crate) recv_poll_gate: RecvPollGate,
    /// A task is being stepped.
    pub(crate) in_task: bool,
    /// The number of that task, if it was spawned.
    pub(crate) task: Option<u32>,
    /// A nested wait may have queued messages as unexpected that the current blocking receive matches.
    pub(crate) recheck_unexpected: bool,
    /// The groups of contexts that do not span the world, by context / 2.
    pub(crate) groups: HashMap<u32, Rc<dyn RankGroup>, BuildNumberHasher>,
    /// The number of unexpected bytes last reported to the engine.
    pub(crate) reported_unexpected_bytes: u64,
    /// Messages that lost ranks sent are being drained.
    pub(crate) detecting_failures: bool,
    /// Number of nonblocking tests and probes that found nothing.
    pub(crate) idle_polls: u32,
}

impl Endpoint {
    /// An endpoint on this engine.
    pub fn new(fabric: Box<dyn Fabric>) -> Self {
        let (rank, size) = (fabric.rank(), fabric.size());
        // Starting the world has rejected invalid values of variables.
        Self {
            state: EndpointState::new(rank, size),
            eager_limit: environment::eager_limit_of(fabric.max_body()),
            // A rank may have terminated before this one started.
            seen_liveness_epoch: None,
            fabric,
            tasks: Tasks::default(),
            stall: environment::stall_timeout().unwrap_or_default(),
            settle_backoff: Backoff::default(),
            finalized: false,
            next_context: 2,
            recv_poll_gate: RecvPollGate::default(),
            in_task: false,
            task: None,
            recheck_unexpected: false,
            groups: HashMap::default(),
            reported_unexpected_bytes: 0,
            detecting_failures: false,
            idle_polls: 0,
        }
    }

    /// This rank of the world.
    pub fn rank(&self) -> u32 {
        self.state.rank
    }

    /// The number of ranks of the world.
    pub fn size(&self) -> u32 {
        self.state.peers.size()
    }

    /// The engine.
    pub fn fabric(&mut self) -> &mut dyn Fabric {
        &mut *self.fabric
    }

    /// The engine's name.
    pub fn engine_name(&self) -> &'static str {
        self.fabric.name()
    }

    /// The number of cores that all ranks share, if they are on one machine.
    pub fn cores(&self) -> Option<u32> {
        self.fabric.cores()
    }

    /// The lowest rank on the host of each rank, if there are several hosts and the engine knows them.
    pub fn hosts(&self) -> &[u32] {
        self.fabric.hosts()
    }

    /// The eager limit: the longest message that is sent without a rendezvous.
    pub fn eager_limit(&self) -> usize {
        self.eager_limit
    }

    /// The lowest context that this rank has never used.
    pub fn next_context(&self) -> u32 {
        self.next_context
    }

    /// Marks all contexts below `context` as used.
    pub fn reserve_contexts_below(&mut self, context: u32) {
        self.next_context = self.next_context.max(context);
    }
}
