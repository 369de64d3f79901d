//! What bodies and handlers send by.
//!
//! A send puts the message into the buffer for its destination, and never runs a handler: so there is no recursion, whatever
//! handlers do, and a body may hold on to the state. What the buffers of a rank to itself hold is handled like everything
//! else; to run the handler at the send instead would be half as fast, as the two loops get in each other's way.

use std::collections::VecDeque;

use bytemuck::{Pod, bytes_of};
use treepie_base::{Error, Rank};

use crate::call::Continuations;
use crate::coalescing::MOST_ROOM;
use crate::lane::{Caching, Lane};
use crate::outgoing::{Outgoing, Waiting};
use crate::port::{Port, Target};
use crate::reduction::Offered;
use crate::sampling::Clock;
use crate::tag::data_tag;
use crate::trace::Trace;

/// What bodies of epochs and handlers send by, and what they know of where they are.
///
/// There is none outside of an epoch, so nothing can be sent there. Nor can it be carried out of one:
///
/// ```compile_fail,E0521
/// # use treepie_am::{ActiveMessages, Port};
/// # fn run(mut am: ActiveMessages<u64>, port: Port<u64>) -> treepie_base::Result<()> {
/// let mut carried = None;
/// am.epoch_for(&mut 0, 0..1, |cx, _, _| carried = Some(cx))?;
/// carried.unwrap().send(port, 0, 1);
/// # Ok(())
/// # }
/// ```
pub struct Context<S> {
    rank: u32,
    ranks: u32,
    pub(crate) lanes: Vec<Lane>,
    /// Lane and place of buffers that have something in them, or may have.
    open: Vec<(u32, u32)>,
    pub(crate) outgoing: Outgoing,
    /// Buffers that wait to be handled here: mostly of this rank for itself.
    pub(crate) local: VecDeque<Local>,
    /// Memory for buffers.
    pool: Vec<Vec<u8>>,
    /// Something is to be given to the engine, or to handlers.
    pub(crate) is_due: bool,
    pub(crate) clock: Clock,
    pub(crate) sum: u64,
    /// What went wrong in a send.
    pub(crate) fault: Option<Error>,
    /// Which of two rounds this is.
    pub(crate) round: usize,
    pub(crate) continuations: Continuations<S>,
    /// The type of spawned closures.
    pub(crate) spawning: Option<usize>,
    pub(crate) trace: Option<Box<Trace>>,
    /// Caches are not emptied: to see that tests notice.
    pub(crate) forgets_caches: bool,
    /// The work that a simulation has been told of.
    told_work: u64,
}

/// A buffer that waits to be handled here.
pub(crate) struct Local {
    /// Its type.
    pub(crate) index: usize,
    /// Who sent it: this rank, mostly.
    pub(crate) from: u32,
    pub(crate) room: Vec<u8>,
    /// Bytes of it that are in use.
    pub(crate) used: usize,
    /// Bytes of it that were handled.
    pub(crate) handled: usize,
}

/// So many buffers are kept to be used again.
const POOL: usize = 64;

/// Longer ones are not.
const POOLED: usize = 1 << 20;

/// Bytes of a buffer when it is opened and there is nothing to be used again.
const SHORT: usize = 1 << 10;

impl<S> Context<S> {
    pub(crate) fn new(rank: u32, ranks: u32, lanes: Vec<Lane>) -> Self {
        Self {
            rank,
            ranks,
            lanes,
            open: Vec::new(),
            outgoing: Outgoing::default(),
            local: VecDeque::new(),
            pool: Vec::new(),
            is_due: false,
            clock: Clock::default(),
            sum: 0,
            fault: None,
            round: 0,
            continuations: Continuations::default(),
            spawning: None,
            trace: None,
            forgets_caches: false,
            told_work: 0,
        }
    }

    /// This rank.
    pub fn rank(&self) -> Rank {
        self.rank as Rank
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> usize {
        self.ranks as usize
    }

    /// Adds to the sum that the epoch returns.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.sum = self.sum.wrapping_add(value);
    }

    /// Sends a message. Its handler runs on that rank before the epoch ends.
    #[inline(always)]
    pub fn send<M: Pod>(&mut self, port: Port<M>, to: Rank, message: M) {
        if let Some(slot) = self.lanes[port.index].slots.straight(to)
            && slot.put(bytes_of(&message))
        {
            return;
        }
        let mut message = message;
        self.send_bytes(port.index, to, bytemuck::bytes_of_mut(&mut message));
    }

    /// Sends a message to whom the owner map of its type says.
    #[inline(always)]
    pub fn send_to<M: Pod, F: Fn(&M) -> Rank>(&mut self, target: &Target<M, F>, message: M) {
        self.send(target.port, target.owner_of(&message), message);
    }

    /// Sends several messages to one rank.
    pub fn send_slice<M: Pod>(&mut self, port: Port<M>, to: Rank, messages: &[M]) {
        messages.iter().for_each(|message| self.send(port, to, *message));
    }

    /// Sends the bytes of a message. They may be others after that.
    #[inline(never)]
    pub(crate) fn send_bytes(&mut self, lane: usize, to: Rank, bytes: &mut [u8]) {
        if to >= self.ranks() {
            self.fault.get_or_insert(Error::BadRank { rank: to, size: self.ranks as usize });
            return;
        }
        self.route(lane, to as u32, self.rank, bytes);
    }

    /// Puts a message on its way, here or from another rank.
    fn route(&mut self, index: usize, to: u32, origin: u32, bytes: &mut [u8]) {
        if to == self.rank {
            return self.put(index, self.lanes[index].own, to, origin, bytes);
        }
        let lane = &mut self.lanes[index];
        let place = lane.routes.place(to);
        if !lane.uses_caches() {
            return self.put(index, place, to, origin, bytes);
        }
        let offered = lane.caches.as_mut().expect("it uses them").offer(place, to, bytes);
        lane.statistics.looked_up += 1;
        lane.statistics.combined += u64::from(offered == Offered::Combined);
        if offered != Offered::Combined {
            lane.note_cached(place);
        }
        let entries = lane.entries;
        let goes_on = match &mut lane.caching {
            Caching::Adaptive(sampling) => sampling.offered(offered == Offered::Combined, entries, &self.clock),
            _ => true,
        };
        if let Offered::Evicted(before) = offered {
            self.put(index, place, before, origin, bytes);
        }
        if !goes_on {
            self.empty_caches(index);
            self.lanes[index].free_caches();
            self.lanes[index].settle_straight();
        }
    }

    /// Puts a message into a buffer.
    fn put(&mut self, index: usize, place: usize, to: u32, origin: u32, bytes: &[u8]) {
        let Lane { frame, slots, infos, most_parcels, .. } = &mut self.lanes[index];
        if !frame.routed && frame.size.is_some() && slots[place].put_short(bytes) {
            return;
        }
        assert!(
            frame.size.is_none_or(|size| size == bytes.len()),
            "a port is used with the runtime that it was made for"
        );
        let (frame, mixed) = (*frame, infos[place].mixed);
        let need = frame.head(mixed) + bytes.len();
        assert!(need <= MOST_ROOM, "no message is longer than 2 GiB");
        let is_full = frame.size.is_none() && infos[place].parcels >= *most_parcels;
        if is_full || slots[place].used() + need > slots[place].room.len() {
            self.make_room(index, place, need, is_full);
        }
        let Lane { slots, infos, .. } = &mut self.lanes[index];
        let slot = &mut slots[place];
        let mut put = |bytes: &[u8]| {
            let done = slot.put_short(bytes);
            assert!(done, "room was made");
        };
        if mixed {
            put(&to.to_ne_bytes());
        }
        if frame.has_origin() {
            put(&origin.to_ne_bytes());
        }
        if frame.size.is_none() {
            put(&(bytes.len() as u32).to_ne_bytes());
            infos[place].parcels += 1;
        }
        put(bytes);
    }

    /// Makes room in a buffer: opens it if it is closed, lets it grow to its size, and then sends it.
    fn make_room(&mut self, index: usize, place: usize, need: usize, is_full: bool) {
        let lane = &mut self.lanes[index];
        let (own, target) = (lane.own, lane.infos[place].target);
        let slot = &mut lane.slots[place];
        let room = slot.room.len();
        if room == 0 {
            self.open.push((index as u32, place as u32));
            lane.counts.open += usize::from(place != own);
        } else if room < target && !is_full {
            slot.room.resize((4 * room).min(target).max(slot.used() + need), 0);
            lane.counts.open_bytes += slot.room.len() - room;
            return lane.note_memory();
        } else if slot.used() > 0 {
            self.emit(index, place, true);
        }
        let target = self.lanes[index].infos[place].target;
        let memory = self.memory(target, need);
        let lane = &mut self.lanes[index];
        lane.counts.open_bytes += memory.len();
        lane.slots[place].room = memory;
        lane.note_memory();
    }

    /// Memory for a buffer that may become so long. It begins short, so that nothing is written for messages that never come,
    /// unless there is memory that was in use before.
    fn memory(&mut self, target: usize, need: usize) -> Vec<u8> {
        let mut memory = self.pool.pop().unwrap_or_default();
        let least = target.min(SHORT).max(need);
        let room = memory.len().min(target).max(least);
        memory.resize(room, 0);
        memory
    }

    /// Takes the memory of a buffer back.
    pub(crate) fn recycle(&mut self, memory: Vec<u8>) {
        if self.pool.len() < POOL && memory.capacity() <= POOLED {
            self.pool.push(memory);
        }
    }

    /// Keeps a buffer that has come, to be handled between items of the body.
    pub(crate) fn queue(&mut self, index: usize, from: u32, body: &[u8]) {
        let mut room = self.pool.pop().unwrap_or_default();
        room.clear();
        room.extend_from_slice(body);
        let used = room.len();
        self.outgoing.note_local(used);
        self.local.push_back(Local { index, from, room, used, handled: 0 });
    }

    /// Sends what a buffer has in it, and leaves it without memory.
    fn emit(&mut self, index: usize, place: usize, is_full: bool) {
        self.is_due = true;
        let lane = &mut self.lanes[index];
        lane.note_sent(place, is_full, &self.clock);
        lane.counts.open_bytes -= lane.slots[place].room.len();
        if place == lane.own {
            let slot = std::mem::take(&mut lane.slots[place]);
            let (used, room) = (slot.used(), slot.room);
            self.outgoing.note_local(used);
            self.local.push_back(Local { index, from: self.rank, room, used, handled: 0 });
            return;
        }
        let data = lane.slots[place].take();
        let info = &lane.infos[place];
        let (to, tag) = (info.to, data_tag(index, info.mixed, self.round));
        if let Some(trace) = &mut self.trace {
            trace.sent(index, to, data.len());
        }
        self.outgoing.push(to, Waiting { tag, data });
    }

    /// Hands over what this rank has sent to itself and is not full yet.
    pub(crate) fn flush_own(&mut self) {
        for index in 0..self.lanes.len() {
            let own = self.lanes[index].own;
            let slot = &self.lanes[index].slots[own];
            if slot.used() > 0 {
                let room = slot.room.len();
                self.emit(index, own, false);
                let memory = self.memory(room, 0);
                self.lanes[index].counts.open_bytes += memory.len();
                self.lanes[index].slots[own].room = memory;
            }
        }
    }

    /// Sends everything that is in caches and buffers. Returns whether there was anything.
    pub(crate) fn flush(&mut self) -> bool {
        for index in 0..self.lanes.len() {
            if !self.lanes[index].cached.is_empty() && !self.forgets_caches {
                self.empty_caches(index);
            }
        }
        let mut any = false;
        let mut open = std::mem::take(&mut self.open);
        for (index, place) in open.drain(..) {
            let (index, place) = (index as usize, place as usize);
            if self.lanes[index].slots[place].used() > 0 {
                any = true;
                self.emit(index, place, false);
            } else {
                let memory = std::mem::take(&mut self.lanes[index].slots[place].room);
                self.lanes[index].counts.open_bytes -= memory.len();
                self.recycle(memory);
            }
            let lane = &mut self.lanes[index];
            lane.counts.open -= usize::from(place != lane.own);
        }
        self.open = open;
        any
    }

    /// Puts what caches hold into buffers.
    fn empty_caches(&mut self, index: usize) {
        let Some(mut caches) = self.lanes[index].caches.take() else { return };
        for place in self.lanes[index].take_cached() {
            let place = place as usize;
            // Types that are combined do not ask for origins.
            caches.drain(place, &mut |to, bytes| self.put(index, place, to, 0, bytes));
        }
        self.lanes[index].caches = Some(caches);
    }

    /// Takes in a buffer of messages of which some are for others.
    pub(crate) fn pass_on(&mut self, index: usize, body: &[u8]) {
        let frame = self.lanes[index].frame;
        let mut rest = body;
        let mut message = Vec::new();
        while let Some((to, after)) = word(rest) {
            let (origin, after) = if frame.has_origin() { word(after).unwrap_or((0, after)) } else { (0, after) };
            let (size, after) = match frame.size {
                Some(size) => (size, after),
                None => word(after).map_or((0, after), |(size, after)| (size as usize, after)),
            };
            let (bytes, after) = after.split_at(size.min(after.len()));
            rest = after;
            self.lanes[index].counts.came_mixed += 1;
            self.lanes[index].counts.came_own += u64::from(to == self.rank);
            message.clear();
            message.extend_from_slice(bytes);
            self.route(index, to, origin, &mut message);
        }
    }

    /// Forgets everything that is on its way, after an epoch that failed.
    pub(crate) fn clear(&mut self) {
        self.outgoing.clear();
        self.local.clear();
        self.open.clear();
        self.continuations.clear();
        (self.sum, self.fault, self.round) = (0, None, 0);
        for lane in &mut self.lanes {
            for place in lane.take_cached() {
                if let Some(caches) = &mut lane.caches {
                    caches.drain(place as usize, &mut |_, _| ());
                }
            }
            lane.slots.clear();
            lane.infos.iter_mut().for_each(|info| info.parcels = 0);
            (lane.counts.open, lane.counts.open_bytes, lane.counts.kept) = (0, 0, 0);
            lane.kept.clear();
        }
    }

    /// Messages that were put into buffers, looked for in caches or handled since this was last asked.
    pub(crate) fn take_work(&mut self) -> u64 {
        let of_lane = |lane: &Lane| lane.counts.put + lane.statistics.looked_up + lane.statistics.handled;
        let all = self.lanes.iter().map(of_lane).sum();
        all - std::mem::replace(&mut self.told_work, all)
    }

    /// Whether nothing waits to be handled or sent, or is known to be in buffers, and nothing went wrong.
    pub(crate) fn is_unused(&self) -> bool {
        self.is_passive() && self.open.is_empty() && self.fault.is_none()
    }

    /// Whether nothing is on its way from here, in buffers or given to the engine.
    pub(crate) fn is_passive(&self) -> bool {
        self.outgoing.buffers == 0 && self.local.is_empty()
    }
}

/// The first word of some bytes, and the rest.
pub(crate) fn word(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (word, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_ne_bytes(*word), rest))
}
