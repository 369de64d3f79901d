//! The engine: records through inboxes and rings, acknowledgements through cells, large messages in one copy.
//!
//! A pair begins to talk through the receiver's inbox. Once it has sent enough, the sender takes one of the receiver's
//! free rings, says so in the inbox as its last record there, and goes on in the ring. The receiver looks at the ring
//! only after it has read that record, so the order of the pair's records is kept.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use treepie_base::{Result, Span};
use treepie_fabric::{Event, Fabric, Head, Invite, Life, Offers, Refused, SharedHeap, Sleep};

use crate::arena::{ACK_SLOTS, Arena, BARRIER_CELLS};
use crate::barrier;
use crate::bell::Bell;
use crate::board::Board;
use crate::bulk::Bulk;
use crate::gathering::Gathering;
use crate::heap::Heap;
use crate::inbox::{Inbox, Slot};
use crate::primitive::Fencing;
use crate::reach::Reach;
use crate::ring::{Reader, Writer};
use crate::wait::Patience;

/// Bit of the sender, in the record by which it says that it goes on in the ring `slot`. Heads are the endpoints' matter:
/// no kind of record may mean something to the engine.
const MOVED: u32 = 1 << 31;

/// Where this rank's records to a peer go.
#[derive(Clone, Copy)]
enum Route {
    /// Into its inbox, with the number of records still to be sent before a ring is worth it.
    Inbox(u32),
    /// Nowhere yet: a ring was taken, this one of `writers`, and the receiver is still to be told.
    Announcing { writer: u32, ring: u32 },
    /// Into this one of `writers`.
    Ring(u32),
}

/// Where the record lies that was handed out last.
enum Held {
    Nothing,
    Inbox,
    Ring(usize),
}

/// What lies first in the inbox.
#[derive(PartialEq)]
enum Mail {
    Nothing,
    Record,
    /// Was there: a peer goes on in a ring, which is looked at from now on.
    NewRing,
}

/// One rank's end of a world in shared memory.
pub struct Shm {
    name: &'static str,
    rank: u32,
    routes: Vec<Route>,
    /// Rings to others, each with the bell of its reader.
    writers: Vec<(&'static Bell, Writer)>,
    inbox: Inbox,
    /// Rings to this rank, each with the bell of its writer.
    readers: Vec<(&'static Bell, Reader)>,
    /// The ring to look at first: the one that had something last.
    favourite: usize,
    held: Held,
    bulk: Bulk,
    gatherings: Vec<Gathering>,
    /// This rank has said that it departs or has failed.
    is_ending: bool,
    /// Peers that a record did not fit for since the last sleep, and the shortest body it was.
    full: Vec<(u32, usize)>,
    patience: Patience,
    polls: u32,
    /// Whether this rank's writers fence.
    fencing: Fencing,
    /// Whether those of others may not, so that this rank fences them when it sleeps; and whether that has failed.
    sleeper_fences: bool,
    barrier_failed: bool,
    /// The engine's news when there was last nothing to poll.
    news_seen: u32,
    start: Instant,
    board: Option<Board>,
    heap: Heap,
    /// Last, as everything above refers into it.
    arena: Arc<Arena>,
}

impl Shm {
    /// Joins a world as one of its ranks. An error if there is no such rank, or if somebody has joined as this one before.
    pub fn join(arena: Arc<Arena>, rank: u32) -> Result<Self> {
        arena.claim_rank(rank)?;
        let (size, threads) = (arena.ranks(), arena.has_threads());
        let layout = arena.layout();
        let control = arena.control(rank);
        if !threads {
            crate::reach::permit_peers();
        }
        let sleeper_fences = arena.header().sleeper_fences != 0;
        let fencing = if sleeper_fences && barrier::register() { Fencing::Sleeper } else { Fencing::Writer };
        // With a ring for everybody there is no reason to wait for a pair to prove itself.
        let first = if size - 1 <= layout.rings { 0 } else { 16 };
        Ok(Self {
            name: if threads { "threads" } else { "shm" },
            rank,
            routes: vec![Route::Inbox(first); size as usize],
            writers: Vec::new(),
            inbox: Inbox::new(&control.inbox, arena.inbox_area(rank)),
            readers: Vec::new(),
            favourite: 0,
            held: Held::Nothing,
            bulk: Bulk::new(&arena, rank),
            gatherings: Vec::new(),
            is_ending: false,
            full: Vec::new(),
            patience: Patience::for_ranks(size, arena.header().cores),
            polls: 0,
            fencing,
            sleeper_fences,
            barrier_failed: false,
            news_seen: 0,
            start: Instant::now(),
            board: Board::new(arena.clone(), rank, fencing, Reach::new(threads)),
            heap: Heap::new(arena.clone()),
            arena,
        })
    }

    fn inbox_of(&self, rank: u32) -> Slot {
        Slot::new(&self.arena.control(rank).inbox, self.arena.inbox_area(rank))
    }

    /// Sends to a peer that has no ring yet.
    #[cold]
    fn send_slowly(&mut self, to: u32, head: Head, body: &[u8]) -> bool {
        if let Route::Inbox(0) = self.routes[to as usize] {
            self.routes[to as usize] = self.take_ring(to);
        }
        let bell = &self.arena.control(to).bell;
        match self.routes[to as usize] {
            Route::Announcing { writer, ring } => {
                let moved = Head { slot: ring, ..Head::default() };
                if self.inbox_of(to).push(self.rank | MOVED, moved, &[], bell) {
                    self.routes[to as usize] = Route::Ring(writer);
                    return self.try_send(to, head, body);
                }
            }
            Route::Inbox(left) => {
                if self.inbox_of(to).push(self.rank, head, body, bell) {
                    self.routes[to as usize] = Route::Inbox(left - 1);
                    return true;
                }
            }
            Route::Ring(_) => unreachable!("rings are served by try_send"),
        }
        self.note_full(to, body.len());
        false
    }

    fn take_ring(&mut self, to: u32) -> Route {
        let rings = self.arena.layout().rings;
        let one_more = |taken| (taken < rings).then_some(taken + 1);
        let taken = &self.arena.control(to).rings_taken;
        let Ok(ring) = taken.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_more) else {
            // None will be free again; there is no use in asking for a long time.
            return Route::Inbox(u32::MAX);
        };
        let (header, area) = self.arena.ring(to, ring);
        self.writers.push((&self.arena.control(to).bell, Writer::new(header, area)));
        Route::Announcing { writer: self.writers.len() as u32 - 1, ring }
    }

    fn note_full(&mut self, to: u32, body: usize) {
        match self.full.iter_mut().find(|(peer, _)| *peer == to) {
            Some((_, least)) => *least = body.min(*least),
            None => self.full.push((to, body)),
        }
    }

    /// Frees the record that was handed out last.
    #[inline]
    fn release(&mut self) {
        match std::mem::replace(&mut self.held, Held::Nothing) {
            Held::Nothing => {}
            Held::Ring(i) => {
                let (writer, reader) = &mut self.readers[i];
                reader.free(writer);
            }
            Held::Inbox => {
                if self.inbox.free() {
                    self.arena.wake_all();
                }
            }
        }
    }

    /// Index of a ring that has a record.
    #[inline]
    fn ready_ring(&mut self) -> Option<usize> {
        // The ring that had something last is likely to have more.
        if let Some((_, reader)) = self.readers.get_mut(self.favourite)
            && reader.ready()
        {
            return Some(self.favourite);
        }
        self.favourite = self.other_ready_ring()?;
        Some(self.favourite)
    }

    fn other_ready_ring(&mut self) -> Option<usize> {
        let n = self.readers.len();
        let after = (self.favourite + 1).min(n);
        (after..n).chain(0..after.min(n)).find(|i| self.readers[*i].1.ready())
    }

    /// Reads what concerns the engine itself, up to a record for others.
    #[inline]
    fn look_into_inbox(&mut self) -> Mail {
        if self.inbox.ready() { self.open_mail() } else { Mail::Nothing }
    }

    #[cold]
    fn open_mail(&mut self) -> Mail {
        let (prefix, _) = self.inbox.next().expect("it is ready");
        if prefix.from & MOVED == 0 {
            self.inbox.keep();
            return Mail::Record;
        }
        let (header, area) = self.arena.ring(self.rank, prefix.head.slot);
        let bell = &self.arena.control(prefix.from & !MOVED).bell;
        self.readers.push((bell, Reader::new(header, area)));
        self.held = Held::Inbox;
        self.release();
        Mail::NewRing
    }

    fn take_from_inbox(&mut self) -> Option<Event<'_>> {
        self.held = Held::Inbox;
        let (prefix, body) = self.inbox.next()?;
        Some(Event::Record { from: prefix.from, head: prefix.head, body })
    }

    /// What is not a record: acknowledgements, barriers, large messages.
    fn poll_rest(&mut self, all_read: bool) -> Option<Event<'static>> {
        if let Some(slot) = self.arena.control(self.rank).take_ack() {
            return Some(match self.bulk.acknowledged(slot) {
                Some(span) => Event::BulkSent { slot, span },
                None => Event::Acked { slot },
            });
        }
        let Self { gatherings, arena, inbox, .. } = self;
        if let Some(i) = gatherings.iter_mut().position(|gathering| gathering.is_over(arena, inbox)) {
            let gathering = gatherings.swap_remove(i);
            return Some(Event::Gathered { cell: gathering.cell, census: gathering.census(arena) });
        }
        if self.bulk.is_idle() { None } else { self.bulk.work(&self.arena, all_read) }
    }

    /// Whether a poll, or a send that found no room, would get on now. Asked after this rank has said that it sleeps.
    fn anything(&mut self) -> bool {
        self.inbox.ready()
            || self.readers.iter_mut().any(|(_, reader)| reader.ready())
            || self.arena.control(self.rank).any_acks()
            || self.gatherings.iter().any(|gathering| gathering.is_complete(&self.arena))
            || self.bulk.has_work(&self.arena)
            || self.board.as_mut().is_some_and(Board::has_news)
            || self.news() != self.news_seen
            || self.full.iter().any(|&(to, body)| match self.routes[to as usize] {
                Route::Ring(i) => self.writers[i as usize].1.has_room(body),
                _ => Slot::new(&self.arena.control(to).inbox, self.arena.inbox_area(to)).has_room_or_block(body),
            })
    }
}

impl Fabric for Shm {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.routes.len() as u32
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn max_body(&self) -> usize {
        self.arena.layout().max_body()
    }

    #[inline]
    fn try_send(&mut self, to: u32, head: Head, body: &[u8]) -> bool {
        match self.routes[to as usize] {
            Route::Ring(i) => {
                let (reader, ring) = &mut self.writers[i as usize];
                let sent = ring.push(self.rank, head, body, reader, self.fencing);
                if !sent {
                    self.note_full(to, body.len());
                }
                sent
            }
            _ => self.send_slowly(to, head, body),
        }
    }

    #[inline]
    fn poll(&mut self) -> Option<Event<'_>> {
        self.release();
        // Records first, as they are what is waited for mostly, and from the ring that had some last; but a flood of
        // them must starve neither the other rings, nor the inbox, nor the rest.
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(64) {
            self.favourite += 1;
            if self.look_into_inbox() == Mail::Record {
                return self.take_from_inbox();
            }
            if let Some(event) = self.poll_rest(false) {
                return Some(event);
            }
        }
        loop {
            if let Some(i) = self.ready_ring() {
                self.held = Held::Ring(i);
                let (prefix, body) = self.readers[i].1.next().expect("it is ready");
                return Some(Event::Record { from: prefix.from, head: prefix.head, body });
            }
            match self.look_into_inbox() {
                Mail::Record => return self.take_from_inbox(),
                // There is a ring more to look at, and it may have something.
                Mail::NewRing => {}
                Mail::Nothing => break,
            }
        }
        self.news_seen = self.news();
        self.poll_rest(true)
    }

    #[inline]
    fn poll_if(&mut self, take: &mut dyn FnMut(u32, Head, &[u8]) -> bool) -> bool {
        self.release();
        match self.readers.get_mut(self.favourite) {
            Some((writer, reader)) => reader.next_if(writer, |prefix, body| take(prefix.from, prefix.head, body)),
            None => false,
        }
    }

    fn sleep(&self, round: u32) -> Sleep {
        if self.patience.is_over(round) { Sleep::AWhile } else { Sleep::Brief }
    }

    fn idle(&mut self, round: u32) -> bool {
        self.release();
        if self.patience.wait_awake(round) {
            return false;
        }
        let bell = &self.arena.control(self.rank).bell;
        // If the others cannot be fenced, a wake-up may be missed; then look again soon.
        let limit = Duration::from_millis(if self.barrier_failed { 1 } else { 100 });
        let (asked, mut failed) = (self.sleeper_fences, false);
        let fence = || failed = if asked { !barrier::everywhere() } else { full_fence() };
        let sleepers = &self.arena.header().common.sleepers;
        sleepers.during(|| bell.sleep(limit, fence, || self.anything()));
        self.barrier_failed |= failed;
        self.full.clear();
        true
    }

    fn give_way(&mut self) {
        self.release();
        self.patience.give_way();
    }

    fn depart(&mut self) {
        self.is_ending = true;
        self.arena.report(self.rank, Life::Leaving);
    }

    fn departed(&mut self) -> bool {
        true
    }

    fn fail(&mut self) {
        self.is_ending = true;
        self.arena.report(self.rank, Life::Failing);
    }

    fn ack(&mut self, to: u32, slot: u32) -> bool {
        if slot >= ACK_SLOTS {
            return false;
        }
        self.arena.control(to).ack(slot);
        true
    }

    fn offer(&mut self, to: u32, span: &mut Span) -> u64 {
        self.bulk.offer(to, span)
    }

    fn bulk_recv(
        &mut self,
        from: u32,
        key: u64,
        slot: u32,
        span: Span,
    ) -> std::result::Result<Option<Invite>, Refused> {
        self.bulk.pull(&self.arena, from, key, slot, span)
    }

    fn bulk_send(&mut self, to: u32, slot: u32, invite: Invite, span: Span) -> std::result::Result<(), Refused> {
        self.bulk.help(&self.arena, to, slot, invite, span)
    }

    fn bulk_ended(&mut self, slot: u32) -> Option<Span> {
        self.bulk.acknowledged(slot)
    }

    fn arrive(&mut self, cell: u32, census: u64) -> bool {
        if cell >= BARRIER_CELLS || self.is_ending {
            return false;
        }
        let arrivals = &self.arena.control(self.rank).arrivals;
        let barrier = arrivals.last(cell) + 1;
        self.gatherings.push(Gathering::new(cell, barrier));
        let arrived = self.arena.barrier_cell(cell).arrive(barrier, census);
        arrivals.note(cell, barrier);
        if arrived == barrier * self.routes.len() as u64 {
            self.arena.wake_all();
        }
        true
    }

    fn arrivals(&self, rank: u32, cell: u32) -> u64 {
        if cell < BARRIER_CELLS { self.arena.control(rank).arrivals.last(cell) } else { 0 }
    }

    fn offers(&self) -> Offers {
        // Records lie where their reader polls before `try_send` returns, and arriving orders them before it.
        Offers { cells: BARRIER_CELLS, arrives_last: true, counters: true }
    }

    fn add(&mut self, to: u32, counter: u32, run: u32) {
        self.arena.control(to).added[counter as usize % 2].add(run);
    }

    fn added(&mut self, counter: u32, run: u32) -> u64 {
        self.arena.control(self.rank).added[counter as usize % 2].of(run).into()
    }

    #[inline]
    fn board(&mut self) -> Option<&mut dyn treepie_fabric::Board> {
        Some(self.board.as_mut()?)
    }

    fn shared(&mut self) -> Option<&mut dyn SharedHeap> {
        Some(&mut self.heap)
    }

    fn news(&self) -> u32 {
        self.arena.header().news.load(Ordering::Acquire)
    }

    fn begun_for_this(&self) -> u64 {
        self.inbox.reserved()
    }

    fn has_read(&self, begun: u64) -> bool {
        // A process that is killed between reserving and publishing hides what lies behind for ever. The launcher ends the job.
        let is_dead = |rank| self.life(rank) == Life::Dead;
        self.inbox.has_read(begun) || (self.rank_is_process() && (0..self.arena.ranks()).any(is_dead))
    }

    fn cores(&self) -> Option<u32> {
        Some(self.arena.header().cores.max(1))
    }

    fn rank_is_process(&self) -> bool {
        self.name == "shm"
    }

    fn life(&self, rank: u32) -> Life {
        self.arena.control(rank).life()
    }
}

/// Orders this rank's accesses; cannot fail.
fn full_fence() -> bool {
    std::sync::atomic::fence(Ordering::SeqCst);
    false
}

impl Drop for Shm {
    fn drop(&mut self) {
        self.release();
        let life = if std::thread::panicking() { Life::Dead } else { Life::Left };
        self.arena.report(self.rank, life);
    }
}
