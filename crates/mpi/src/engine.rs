//! One rank of an MPI job as an engine.
//!
//! It never waits inside MPI: whoever waits polls, and pauses in between ([`Rest`]). An MPI that waits spins, which
//! costs milliseconds a message when ranks outnumber processors.
//!
//! MPI bounds neither what it stores of records that nobody takes nor the memory for it. The engine holds back only
//! what MPI itself holds back; the credit of the endpoint above is what keeps a flood of records bounded.

use std::time::{Duration, Instant};

use treepie_base::Span;
use treepie_fabric::{Event, Fabric, Head, Invite, Refused};

use crate::bulk::Bulk;
use crate::exit;
use crate::inbox::Inbox;
use crate::outbox::Outbox;
use crate::record::MAX_BODY;
use crate::rest::Rest;
use crate::shim::{Request, Shim, World};

/// The exit status of a job in which a rank failed; that of a Rust program that panics.
const FAILED: i32 = 101;

/// One rank, as an MPI process.
pub(crate) struct MpiFabric {
    shim: Shim,
    world: World,
    start: Instant,
    inbox: Inbox,
    outbox: Outbox,
    bulk: Bulk,
    /// Polls since transfers were looked at before records.
    records: u32,
    rest: Rest,
    stage: Stage,
}

/// Transfers are looked at before records in one of so many polls.
const RECORDS: u32 = 16;

/// How far this rank is on its way out.
enum Stage {
    Here,
    /// Its last records and transfers are on their way.
    Draining,
    /// It waits for the others to come as far.
    Gathering(Request),
    /// Nobody sends anything any more.
    Gone,
}

impl MpiFabric {
    pub(crate) fn new(shim: Shim, world: World) -> Self {
        if world.size > 1 {
            exit::enter(world.rank, shim.aborter());
        }
        Self {
            inbox: Inbox::new(&shim),
            outbox: Outbox::new(world.size as u32),
            bulk: Bulk::new(world.largest_tag),
            records: 0,
            rest: Rest::new(&world),
            start: Instant::now(),
            stage: Stage::Here,
            shim,
            world,
        }
    }

    /// The memory for a transfer with a peer, if there is such a rank.
    fn if_there(&self, peer: u32, span: Span) -> Result<Span, Refused> {
        let ranks = self.world.size as u32;
        if peer < ranks {
            return Ok(span);
        }
        Err(Refused::because(span, format!("a bulk transfer with rank {peer} of {ranks} cannot be")))
    }

    fn abort(&self, why: &str, code: i32) -> ! {
        let line = format!("treepie: rank {} {why}: the job is aborted\n", self.world.rank);
        exit::abort(self.shim.aborter(), &line, code)
    }
}

impl Fabric for MpiFabric {
    fn rank(&self) -> u32 {
        self.world.rank as u32
    }

    fn size(&self) -> u32 {
        self.world.size as u32
    }

    fn name(&self) -> &'static str {
        "mpi"
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn max_body(&self) -> usize {
        MAX_BODY
    }

    #[inline]
    fn try_send(&mut self, to: u32, head: Head, body: &[u8]) -> bool {
        self.outbox.try_send(&self.shim, to, head, body)
    }

    #[inline]
    fn poll(&mut self) -> Option<Event<'_>> {
        self.outbox.reap(&self.shim);
        // A test of transfers none of which is done has MPI look at all of them, and at everything else; where ranks outnumber
        // processors it also gives the processor away. So records come first, but they must not keep transfers waiting.
        self.records = (self.records + 1) % RECORDS;
        if self.records == 0
            && let Some(event) = self.bulk.poll(&self.shim)
        {
            return Some(event);
        }
        match self.inbox.poll(&self.shim) {
            Some((from, head, body)) => Some(Event::Record { from, head, body }),
            None => self.bulk.poll(&self.shim),
        }
    }

    fn idle(&mut self, round: u32) -> bool {
        self.rest.pause(round, !self.bulk.is_empty())
    }

    fn depart(&mut self) {
        if let Stage::Here = self.stage {
            self.stage = Stage::Draining;
        }
    }

    fn departed(&mut self) -> bool {
        match &self.stage {
            Stage::Here => {}
            Stage::Draining => {
                // Only after its own sends: then the end of the barrier says that no rank has any left.
                self.outbox.reap(&self.shim);
                if self.outbox.is_empty() && self.bulk.is_empty() {
                    self.stage = Stage::Gathering(self.shim.ibarrier());
                }
            }
            Stage::Gathering(barrier) => {
                if self.shim.test(barrier).is_some() {
                    self.stage = Stage::Gone;
                }
            }
            Stage::Gone => return true,
        }
        matches!(self.stage, Stage::Gone)
    }

    fn fail(&mut self) {
        self.abort("panicked", FAILED);
    }

    fn bulk_recv(&mut self, from: u32, _key: u64, slot: u32, span: Span) -> Result<Option<Invite>, Refused> {
        let span = self.if_there(from, span)?;
        // MPI looks for a transfer among all records that have come and were not taken, and there may be many when short messages
        // are announced: these had no credit left. As records they are looked for by nobody.
        if span.len() <= MAX_BODY {
            return Err(Refused::not_here(span));
        }
        self.bulk.receive(&self.shim, from, slot, span).map(Some)
    }

    fn bulk_send(&mut self, to: u32, slot: u32, invite: Invite, span: Span) -> Result<(), Refused> {
        let span = self.if_there(to, span)?;
        self.bulk.send(&self.shim, to, slot, invite, span)
    }

    fn knows_life(&self) -> bool {
        false
    }
}

impl Drop for MpiFabric {
    /// Leaves MPI in order if all ranks have departed. Otherwise the others may wait for this one, and MPI may still
    /// write into memory that is about to be freed: the job ends.
    fn drop(&mut self) {
        let in_order = matches!(self.stage, Stage::Gone) || self.world.size == 1;
        if !in_order || !self.bulk.is_empty() {
            self.abort("left its world before the others", exit::VANISHED);
        }
        exit::leave();
        self.inbox.close(&self.shim);
        self.shim.end();
    }
}
