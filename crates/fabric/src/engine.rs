//! What an engine is: it moves records of bytes, in order, between pairs of ranks. Nothing else is required of it.
//!
//! Matching, contexts, eager and rendezvous, synchronous sends, credit and windows stand once above all engines, in
//! [`Endpoint`](crate::Endpoint). An engine belongs to one rank and is driven by that rank alone; it never calls back.
//!
//! | required | |
//! |---|---|
//! | [`rank`](Fabric::rank), [`size`](Fabric::size), [`now`](Fabric::now), [`max_body`](Fabric::max_body) | facts |
//! | [`try_send`](Fabric::try_send), [`poll`](Fabric::poll) | the channel |
//! | [`idle`](Fabric::idle) | how to wait |
//! | [`depart`](Fabric::depart), [`departed`](Fabric::departed), [`fail`](Fabric::fail) | how to end |
//!
//! The rest has defaults that say "not here"; the endpoint then does the same with records. Override where the engine
//! knows a shorter way: `ack` (a cell that the sender owns), `bulk_*` (memory to memory), `arrive`, `add`, `offers` (shared counters),
//! `shared` (memory that all ranks map), `life` (who has ended). Engines with a time of their own want to know what takes
//! some (`compute`, `combined`), what takes memory (`holds`) and why a rank waits (`waits_for`, `settling`). Where ranks share a thread, handles may stray
//! (`is_here`).

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use treepie_base::{Error, Result, Span};

use crate::board::Board;

/// The fixed part of a record. The engine carries it and does not look inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Head {
    /// What the record is, in its low bits; above them the operation that a message belongs to and the high bits of its
    /// tag. See the endpoint's `kind` module.
    pub kind: u32,
    /// Which communicator.
    pub context: u32,
    /// Which message: the low bits of its tag.
    pub tag: u32,
    /// A number whose meaning depends on `kind`: mostly the operation that an answer refers to.
    pub slot: u32,
}

/// What an engine reports, one at a time.
#[derive(Debug)]
pub enum Event<'a> {
    /// A record arrived. `body` lies in the engine's memory and is released by the next call of the engine.
    Record {
        /// Who sent it.
        from: u32,
        /// Its fixed part.
        head: Head,
        /// The rest.
        body: &'a [u8],
    },
    /// A peer called [`Fabric::ack`] on this slot.
    Acked {
        /// The slot.
        slot: u32,
    },
    /// A bulk transfer into `span` is done.
    BulkReceived {
        /// As given to [`Fabric::bulk_recv`].
        slot: u32,
        /// The memory, filled.
        span: Span,
        /// Whether the sender learns of the end only if the endpoint acknowledges it.
        tell_sender: bool,
    },
    /// A bulk transfer out of `span` is done, or the peer's acknowledgement came.
    BulkSent {
        /// As given to [`Fabric::bulk_send`].
        slot: u32,
        /// The memory, free again.
        span: Span,
    },
    /// A bulk transfer ended because the peer did, or took its memory back.
    BulkFailed {
        /// As given at the start.
        slot: u32,
        /// The memory.
        span: Span,
        /// Whether this rank was the sender.
        sending: bool,
    },
    /// Every rank has arrived at this cell once more.
    Gathered {
        /// As given to [`Fabric::arrive`].
        cell: u32,
        /// All bits that ranks have brought.
        census: u64,
    },
}

/// Whether a rank can still be expected to do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It runs, as far as is known.
    Here,
    /// It starts nothing new; all it will ever send has been handed over. Its memory is still in use.
    Leaving,
    /// It has failed and does nothing more but give its memory back.
    Failing,
    /// It has ended in order and touches no memory any more.
    Left,
    /// It crashed, panicked or was killed, and touches no memory any more.
    Dead,
}

/// How long a rank sleeps for which nothing has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// Not at all, or too briefly to matter.
    Brief,
    /// Until something has come, or for a while.
    AWhile,
    /// Until something has come, however long that takes.
    ForGood,
}

/// What a receiver tells the sender of a bulk transfer so that it can do its part. Opaque above the engine, which checks
/// it: what it names is looked up where the receiver's engine keeps it.
pub type Invite = [u64; 4];

/// A bulk transfer that was not begun.
#[derive(Debug)]
pub struct Refused {
    /// The memory, untouched.
    pub span: Span,
    /// What is wrong; nothing if this engine just cannot move it, so that the data is to go in records.
    pub error: Option<Error>,
}

impl Refused {
    /// The engine has no way to move this itself.
    pub fn not_here(span: Span) -> Self {
        Self { span, error: None }
    }

    /// A key or an invite names nothing that it may.
    pub fn because(span: Span, why: String) -> Self {
        Self { span, error: Some(Error::Engine(why)) }
    }
}

/// How ranks reach each other. See the [module](self) for what is required.
pub trait Fabric {
    /// This rank.
    fn rank(&self) -> u32;

    /// How many ranks there are.
    fn size(&self) -> u32;

    /// The engine's name, as `shm`.
    fn name(&self) -> &'static str;

    /// Time since some moment in the past; virtual in a simulation.
    fn now(&self) -> Duration;

    /// The longest body that one record may have; at least 1024.
    fn max_body(&self) -> usize;

    /// Sends a record to another rank, unless there is no room now. Records from one rank to another arrive in order.
    /// The endpoint never sends to its own rank.
    fn try_send(&mut self, to: u32, head: Head, body: &[u8]) -> bool;

    /// Does what can be done now and reports one event.
    fn poll(&mut self) -> Option<Event<'_>>;

    /// Shows a record that is there, if it costs nothing to look, to `take`, which says whether it has taken it. Returns
    /// whether it has. Never serves instead of [`poll`](Self::poll): it may show only some records, and nothing else.
    fn poll_if(&mut self, take: &mut dyn FnMut(u32, Head, &[u8]) -> bool) -> bool {
        let _ = take;
        false
    }

    /// Waits a little, after `round` (0, 1, 2, ...) polls in a row that brought nothing: spin, yield, then sleep. Must
    /// return at once if an event, or room after a `try_send` that failed, has come since; must return after about
    /// 100 ms in any case. Returns whether it slept.
    fn idle(&mut self, round: u32) -> bool;

    /// Lets others run, after a poll that brought nothing, for somebody who only looks and does not wait: must not sleep until
    /// something comes.
    fn give_way(&mut self) {
        self.idle(0);
    }

    /// What [`idle`](Self::idle) would do: what is to be looked after by those who wait is looked after before a sleep.
    fn sleep(&self, round: u32) -> Sleep {
        let _ = round;
        Sleep::Brief
    }

    /// Announces that this rank starts nothing new. Polling goes on until [`departed`](Self::departed).
    fn depart(&mut self);

    /// Whether the engine may be dropped, after [`depart`](Self::depart).
    fn departed(&mut self) -> bool;

    /// Announces that this rank has failed and will do nothing more; an engine that cannot say so ends the job.
    fn fail(&mut self);

    /// Tells `to` that its operation `slot` has been answered, even when the channel to it is full. Returns false where
    /// there is no such way for this slot; the endpoint then sends a record.
    fn ack(&mut self, to: u32, slot: u32) -> bool {
        let _ = (to, slot);
        false
    }

    /// The key by which rank `to` finds memory that is about to be offered to it. An engine whose ranks copy from each
    /// other's memory enters it into a table of its own and [registers](Span::register) the span, so that the entry ends
    /// before the memory does; a key that names no entry is an error of [`bulk_recv`](Self::bulk_recv).
    fn offer(&mut self, to: u32, span: &mut Span) -> u64 {
        let _ = (to, span);
        0
    }

    /// Begins to receive `span.len()` bytes that `from` offered under a key. `Ok(Some(invite))`: the endpoint sends the
    /// invite to the sender, whose engine gets it by [`bulk_send`](Self::bulk_send). `Ok(None)`: the sender has nothing
    /// to do. An error says why, or that the endpoint is to move the data in records.
    fn bulk_recv(
        &mut self,
        from: u32,
        key: u64,
        slot: u32,
        span: Span,
    ) -> std::result::Result<Option<Invite>, Refused> {
        let _ = (from, key, slot);
        Err(Refused::not_here(span))
    }

    /// Takes part in a bulk transfer as its sender, as the invite says that the peer's `bulk_recv` made. One that no
    /// peer has made is an error; one whose transfer has ended meanwhile asks for nothing.
    fn bulk_send(&mut self, to: u32, slot: u32, invite: Invite, span: Span) -> std::result::Result<(), Refused> {
        let _ = (slot, invite);
        Err(Refused::because(span, format!("rank {to} sent an invite for a bulk transfer; this engine makes none")))
    }

    /// Gives back the memory of a [`bulk_send`](Self::bulk_send) whose end the peer has told by a record, because
    /// [`ack`](Self::ack) did not serve that slot.
    fn bulk_ended(&mut self, slot: u32) -> Option<Span> {
        let _ = slot;
        None
    }

    /// Adds this rank to a counter that all ranks of the engine share; [`Event::Gathered`] tells when all have come.
    /// The caller arrives again only after that event, which tells all bits of what each rank has brought, `census`.
    /// Returns false if there is no such cell, or if this rank has said that it departs or has failed: whoever is lost
    /// arrives nowhere any more.
    fn arrive(&mut self, cell: u32, census: u64) -> bool {
        let _ = (cell, census);
        false
    }

    /// How many barriers of a cell a rank has arrived at. Final once that rank is known to be lost ([`life`](Self::life)).
    fn arrivals(&self, rank: u32, cell: u32) -> u64 {
        let _ = (rank, cell);
        0
    }

    /// What there is for protocols beside messages.
    fn offers(&self) -> Offers {
        Offers::default()
    }

    /// Adds one to a counter of a rank, 0 or 1, for a run, where there are counters. What was added for another run is
    /// forgotten.
    fn add(&mut self, to: u32, counter: u32, run: u32) {
        let _ = (to, counter, run);
        unreachable!("this engine has no counters");
    }

    /// What was added to one of this rank's counters for a run.
    fn added(&mut self, counter: u32, run: u32) -> u64 {
        let _ = (counter, run);
        0
    }

    /// A board that all ranks of the engine see, if there is one.
    fn board(&mut self) -> Option<&mut dyn Board> {
        None
    }

    /// Memory that every rank of the engine can map.
    fn shared(&mut self) -> Option<&mut dyn SharedHeap> {
        None
    }

    /// A number that changes when [`life`](Self::life) changes for any rank.
    fn news(&self) -> u32 {
        0
    }

    /// What has become of a rank. An engine that cannot know says `Here`, and the endpoint asks the rank itself when it
    /// has waited for it for a while.
    fn life(&self, rank: u32) -> Life {
        let _ = rank;
        Life::Here
    }

    /// Tells what has become of ranks whose life has changed since [`news`](Self::news) was that number, or ever; of others
    /// too if it does not know better. Only those that are no longer `Here` matter.
    fn changed_since(&self, news: Option<u32>, tell: &mut dyn FnMut(u32, Life)) {
        let _ = news;
        (0..self.size()).for_each(|rank| tell(rank, self.life(rank)));
    }

    /// How far peers have begun to send to this rank; for [`has_read`](Self::has_read).
    fn begun_for_this(&self) -> u64 {
        0
    }

    /// Whether everything has been read that peers had begun to send to this rank when that was so far. If not, somebody is
    /// still writing, and what others sent after that is hidden behind it, though they may have ended since.
    fn has_read(&self, begun: u64) -> bool {
        let _ = begun;
        true
    }

    /// Whether whoever calls is this rank. If not, as where ranks share a thread and a handle got to the code of another,
    /// nothing can be sent or waited for now: what is begun there fails, and everything else stays as it is.
    fn is_here(&self) -> bool {
        true
    }

    /// Whether each rank is a process of its own, which can end without taking others with it.
    fn rank_is_process(&self) -> bool {
        false
    }

    /// How many cores all ranks share, if they are on one machine. The same on all ranks.
    fn cores(&self) -> Option<u32> {
        None
    }

    /// Whether [`life`](Self::life) knows.
    fn knows_life(&self) -> bool {
        true
    }

    /// The program has computed for so long, where time is virtual. Elsewhere that took its time by itself.
    fn compute(&mut self, time: Duration) {
        let _ = time;
    }

    /// The program has done so many units of work, as messages sent and handled. As [`compute`](Self::compute), and a
    /// simulation says what a unit costs.
    fn worked(&mut self, units: u64) {
        let _ = units;
    }

    /// A collective operation has combined so many bytes with others. As [`compute`](Self::compute).
    fn combined(&mut self, bytes: usize) {
        let _ = bytes;
    }

    /// So many bytes of whole messages have come before they were asked for; told after that has changed.
    fn holds(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// What a rank waits for, told after [`idle`](Self::idle) has said that it slept, and now and then if it never does. It
    /// waits on after that.
    fn waits_for(&mut self, what: &dyn fmt::Display) {
        let _ = what;
    }

    /// From now on, or no longer, memory that was lent is waited for: an engine that ends a rank by unwinding must not do
    /// that now, but let everything fail that goes on.
    fn settling(&mut self, is_so: bool) {
        let _ = is_so;
    }
}

/// What an engine has for protocols beside messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offers {
    /// So many cells for [`Fabric::arrive`].
    pub cells: u32,
    /// Everything that a rank had sent before it arrived can be polled by whoever has been told that all have.
    pub arrives_last: bool,
    /// Each rank has two counters for [`Fabric::add`].
    pub counters: bool,
}

/// Memory outside any rank's own, given out in pieces that every rank can map.
pub trait SharedHeap {
    /// Sets a piece aside and returns where it lies. One rank does this for all that will use it.
    fn reserve(&mut self, bytes: u64) -> Result<u64>;

    /// Maps a piece, zero at first. Dropping the last handle of a rank unmaps it there. An error outside of what was
    /// reserved.
    fn map(&mut self, at: u64, bytes: u64) -> Result<Rc<dyn SharedMemory>>;

    /// Gives the memory back. One rank does this, when nobody uses the piece any more: whoever has mapped it sees zeros.
    /// An error outside of what was reserved.
    fn release(&mut self, at: u64, bytes: u64) -> Result<()>;
}

/// A mapped piece of shared memory. Other ranks change it at any time; words of 8 bytes never tear.
pub trait SharedMemory {
    /// Copies out. Panics outside the piece.
    fn load(&self, at: u64, into: &mut [u8]);
    /// Copies in. Panics outside the piece.
    fn store(&self, at: u64, from: &[u8]);
    /// Adds to the word at `at`, a multiple of 8, and returns what was there.
    fn fetch_add(&self, at: u64, value: u64) -> u64;
}
