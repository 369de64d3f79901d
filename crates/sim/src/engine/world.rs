//! What all simulated ranks share: the machine, what is on the way, and who waits for what.
//!
//! A rank has a time of its own, never behind the machine's: what it does costs time, and it goes on doing things until it
//! looks for something. Then it is suspended until the machine has come to its time.

use std::collections::{BTreeMap, HashMap, VecDeque};

use treepie_base::Span;
use treepie_fabric::{Head, Life};
use treepie_topology::Tie;

use super::Options;
use super::bulk::Bulks;
use super::lives::NOTICED_AFTER;
use crate::machine::{Happening, Machine, Message, What};
use crate::time::{Time, from_micros, rounded};

/// Records of a pair of ranks come in order; their bulk data is in another channel.
const RECORDS: u32 = 0;
const BULK: u32 = 1;

/// Wakes that are no rank's own have this bit. The rest of the token is the cell.
const GATHERED: u64 = 1 << 63;

/// And those by which a rank tells a sender that its message was taken this one. Above the slot is whom it tells.
const ACKED: u64 = 1 << 62;

/// Something that a rank finds when it polls.
pub(super) enum Arrival {
    Record { from: u32, head: Head, body: Vec<u8> },
    BulkReceived { slot: u32, span: Span },
    BulkSent { slot: u32, span: Span },
    BulkFailed { slot: u32, span: Span, sending: bool },
    Gathered { cell: u32, census: u64 },
    Acked { slot: u32 },
}

impl Arrival {
    /// Bytes that it occupies until it is looked at. Memory of transfers is the program's own.
    pub(super) fn lying(&self) -> u64 {
        match self {
            Arrival::Record { body, .. } => body.len() as u64,
            _ => 0,
        }
    }
}

/// Something on the way.
pub(super) struct Mail {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) what: Sent,
    /// Its last byte may still be at its sender: it is lost if that one dies.
    pub(super) leaves: bool,
}

pub(super) enum Sent {
    Record(Head, Vec<u8>),
    Bulk(u64),
}

/// Why a rank is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// It is not, or will be resumed.
    Nothing,
    /// For a time.
    Time,
    /// For something to come, or for a time.
    Arrival,
}

/// Whether a rank is to end before its program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doom {
    None,
    /// Nothing will happen any more: it may say what it waits for, and ends then.
    Asked,
    /// It is cut off from all others, and ends when it looks for something.
    Certain,
}

/// One rank.
pub(super) struct Rank {
    /// Its time.
    pub(super) time: Time,
    pub(super) inbox: VecDeque<Arrival>,
    pub(super) wait: Wait,
    /// Tells a wake that is meant from those that are not any more.
    turn: u64,
    pub(super) doom: Doom,
    pub(super) life: Life,
    /// What others know of it: its end is known when all that it sent has arrived.
    pub(super) shown: Life,
    /// It is among those whose end is not shown yet.
    pub(super) is_unshown: bool,
    /// Messages of its own that are on the way.
    pub(super) on_the_way: u32,
    /// Of them those by which it tells that messages were taken.
    pub(super) acknowledging: u32,
    /// When its program ended.
    pub(super) ended: Option<Time>,
    /// What it waits for for ever, as far as it can tell.
    pub(super) waits_for: Option<String>,
    /// What it sends from then on vanishes.
    pub(super) dies: Time,
    /// Cells of the machine's barrier, and at how many barriers of each it has arrived.
    pub(super) arrivals: BTreeMap<u32, u64>,
    /// Bytes of messages that it has not looked at, and of those that it has not asked for.
    pub(super) lying: u64,
    pub(super) kept: u64,
}

impl Rank {
    /// Whether its death is over, as far as it can tell.
    pub(super) fn outlived_itself(&self) -> bool {
        self.doom == Doom::Certain || self.time >= self.dies
    }
}

/// Why all are ended before they are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// Nothing happens any more.
    Stuck,
    /// The time that was given to them is over.
    Limit,
    /// All time is over.
    TooLong,
    /// A rank held more than it may, at that time.
    Memory { rank: u32, held: u64, time: Time },
}

#[derive(Default)]
struct Gathering {
    arrived: u32,
    last: Time,
    /// What they bring.
    census: u64,
    /// What all brought to the one before; nobody comes to the next but one before all have read it.
    brought: u64,
}

/// All that simulated ranks share.
pub(super) struct World {
    pub(super) machine: Machine,
    pub(super) ranks: Vec<Rank>,
    /// To be resumed, in order.
    pub(super) ready: VecDeque<u32>,
    /// Ranks whose programs go on.
    pub(super) running: u32,
    /// The ranks whose shown life has changed, in order.
    pub(super) changed: Vec<u32>,
    pub(super) bulks: Bulks,
    pub(super) halt: Option<Halt>,
    pub(super) poll: Time,
    /// How long it takes until a sender knows that its message was taken, if nobody's CPU has to do with it.
    pub(super) handshake: Option<Time>,
    /// Picoseconds of a unit of work.
    pub(super) work: f64,
    /// Nothing happens after that.
    pub(super) limit: Time,
    /// Sends are priced when they begin, and wait for that.
    pub(super) sends_on_time: bool,
    pub(super) mail: HashMap<u64, Mail>,
    next_token: u64,
    gatherings: HashMap<u32, Gathering>,
    /// Ranks whose end is not shown yet.
    pub(super) unshown: Vec<u32>,
    /// When ranks that left in order are noticed next, and how long after that again.
    pub(super) notice: (Time, Time),
}

impl World {
    pub(super) fn new(machine: Machine, deaths: impl Fn(u32) -> Time, options: &Options) -> Self {
        let rank = |rank| Rank {
            time: 0,
            inbox: VecDeque::new(),
            wait: Wait::Nothing,
            turn: 0,
            doom: Doom::None,
            life: Life::Here,
            shown: Life::Here,
            is_unshown: false,
            on_the_way: 0,
            acknowledging: 0,
            ended: None,
            waits_for: None,
            dies: deaths(rank),
            arrivals: BTreeMap::new(),
            lying: 0,
            kept: 0,
        };
        let ranks: Vec<Rank> = (0..machine.ranks()).map(rank).collect();
        Self {
            ready: (0..machine.ranks()).collect(),
            running: machine.ranks(),
            machine,
            ranks,
            changed: Vec::new(),
            bulks: Bulks::default(),
            halt: None,
            poll: from_micros(options.poll),
            handshake: None,
            work: 0.0,
            limit: options.limit.map_or(Time::MAX, from_micros),
            sends_on_time: false,
            mail: HashMap::new(),
            next_token: 0,
            gatherings: HashMap::new(),
            unshown: Vec::new(),
            notice: (NOTICED_AFTER, NOTICED_AFTER),
        }
    }

    pub(super) fn rank(&mut self, rank: u32) -> &mut Rank {
        &mut self.ranks[rank as usize]
    }

    /// A rank sends a record.
    pub(super) fn send(&mut self, from: u32, to: u32, head: Head, body: &[u8]) {
        let bytes = body.len() as u64;
        self.put_on_the_way((from, to, RECORDS), bytes, || Sent::Record(head, body.to_vec()));
    }

    /// A rank begins its part in a bulk transfer.
    pub(super) fn send_bulk(&mut self, from: u32, to: u32, bulk: u64, slot: u32, span: Span) {
        let bytes = span.len() as u64;
        let own = &self.ranks[from as usize];
        if own.time >= own.dies {
            // Nothing of it will come, so the receiver must not have the data either: it hears of the death.
            self.arrives(from, Arrival::BulkFailed { slot, span, sending: true });
        } else if let Err(span) = self.bulks.begin(bulk, slot, span) {
            self.arrives(from, Arrival::BulkFailed { slot, span, sending: true });
        } else if !self.put_on_the_way((from, to, BULK), bytes, || Sent::Bulk(bulk)) {
            self.bulk_sent(from, bulk);
        }
    }

    /// Returns whether the machine will tell of the end of the send.
    fn put_on_the_way(
        &mut self,
        (from, to, channel): (u32, u32, u32),
        bytes: u64,
        what: impl FnOnce() -> Sent,
    ) -> bool {
        let at = self.ranks[from as usize].time;
        if at >= self.ranks[from as usize].dies {
            return false;
        }
        let token = self.next_token;
        self.next_token += 1;
        let sending = self.machine.send(at, Message { from, to, bytes, channel, token, tie: Tie::default() });
        let sender = self.rank(from);
        sender.time = sender.time.max(sending.free);
        // The machine delivers nothing to the dead.
        let goes = self.ranks[to as usize].dies > self.machine.now();
        if goes {
            self.rank(from).on_the_way += 1;
            self.mail.insert(token, Mail { from, to, what: what(), leaves: sending.over.is_none() });
        }
        goes && sending.over.is_none()
    }

    /// Suspends a rank until its time has come. False if that is now.
    pub(super) fn wait_for_time(&mut self, rank: u32) -> bool {
        let time = self.ranks[rank as usize].time;
        let ahead = time > self.machine.now();
        if ahead {
            self.wake_at(rank, time, Wait::Time);
        }
        ahead
    }

    /// Suspends a rank until something comes for it; if there is a time, until then at the latest.
    pub(super) fn wait_for_arrival(&mut self, rank: u32, until: Option<Time>) {
        match until {
            Some(time) => self.wake_at(rank, time.max(self.machine.now()), Wait::Arrival),
            None => self.rank(rank).wait = Wait::Arrival,
        }
    }

    fn wake_at(&mut self, rank: u32, time: Time, wait: Wait) {
        let own = self.rank(rank);
        own.wait = wait;
        let turn = own.turn;
        self.machine.wake(time, rank, turn);
    }

    /// A suspended rank goes on.
    pub(super) fn rouse(&mut self, rank: u32) {
        let own = self.rank(rank);
        if own.wait != Wait::Nothing {
            own.wait = Wait::Nothing;
            own.turn += 1;
            self.ready.push_back(rank);
        }
    }

    /// Something is there for a rank.
    pub(super) fn arrives(&mut self, rank: u32, arrival: Arrival) {
        let own = self.rank(rank);
        if own.ended.is_some() {
            return;
        }
        own.lying += arrival.lying();
        own.inbox.push_back(arrival);
        if own.wait == Wait::Arrival {
            self.rouse(rank);
        }
        self.check_memory(rank);
    }

    /// Ends all if a rank holds more than it may.
    pub(super) fn check_memory(&mut self, rank: u32) {
        let Rank { lying, kept, time, .. } = self.ranks[rank as usize];
        let (held, time) = (lying + kept, time.max(self.machine.now()));
        if self.halt.is_none() && self.machine.memory_cap().is_some_and(|cap| held > cap) {
            self.halts(Halt::Memory { rank, held, time });
        }
    }

    /// A rank has come to a barrier of the machine's. False if there is none.
    pub(super) fn gather(&mut self, rank: u32, cell: u32, census: u64) -> bool {
        if self.machine.barrier() == 0 {
            return false;
        }
        let (time, all) = (self.ranks[rank as usize].time, self.machine.ranks());
        *self.rank(rank).arrivals.entry(cell).or_default() += 1;
        let gathering = self.gatherings.entry(cell).or_default();
        gathering.arrived += 1;
        gathering.last = gathering.last.max(time);
        gathering.census |= census;
        if gathering.arrived == all {
            let over = gathering.last + self.machine.barrier();
            *gathering = Gathering { brought: gathering.census, ..Gathering::default() };
            (0..all).for_each(|rank| self.machine.wake(over, rank, GATHERED | u64::from(cell)));
        }
        true
    }

    /// A rank has taken a message, of which its sender gets to know. False if that needs a message.
    pub(super) fn acknowledge(&mut self, rank: u32, sender: u32, slot: u32) -> bool {
        let Some(later) = self.handshake else { return false };
        let own = self.rank(rank);
        own.on_the_way += 1;
        own.acknowledging += 1;
        let at = own.time + later;
        self.machine.wake(at, rank, ACKED | u64::from(sender) << 32 | u64::from(slot));
        true
    }

    /// Something has happened on the machine.
    pub(super) fn happens(&mut self, happening: Happening) {
        let Happening { rank, what, .. } = happening;
        match what {
            What::Delivered { token, .. } => self.delivered(token),
            What::Sent { token } => {
                let Some(mail) = self.mail.get_mut(&token) else { return };
                mail.leaves = false;
                if let Sent::Bulk(bulk) = mail.what {
                    self.bulk_sent(rank, bulk);
                }
            }
            What::Woken { token } if token & GATHERED != 0 => {
                let cell = token as u32;
                let census = self.gatherings.get(&cell).map_or(0, |gathering| gathering.brought);
                self.arrives(rank, Arrival::Gathered { cell, census });
            }
            What::Woken { token } if token & ACKED != 0 => {
                self.rank(rank).acknowledging -= 1;
                self.one_less_on_the_way(rank);
                self.arrives(((token & !ACKED) >> 32) as u32, Arrival::Acked { slot: token as u32 });
            }
            What::Woken { token } => {
                if self.ranks[rank as usize].turn == token {
                    self.rouse(rank);
                }
            }
            What::Died => self.dies(rank),
        }
    }

    /// The last byte of a transfer has left its sender.
    pub(super) fn bulk_sent(&mut self, from: u32, bulk: u64) {
        if let Some((slot, span)) = self.bulks.sent(bulk) {
            self.arrives(from, Arrival::BulkSent { slot, span });
        }
    }

    fn delivered(&mut self, token: u64) {
        let Some(Mail { from, to, what, .. }) = self.mail.remove(&token) else { return };
        self.one_less_on_the_way(from);
        match what {
            Sent::Record(head, body) => self.arrives(to, Arrival::Record { from, head, body }),
            Sent::Bulk(bulk) => {
                if let Some((slot, span)) = self.bulks.received(bulk) {
                    self.arrives(to, Arrival::BulkReceived { slot, span });
                }
            }
        }
    }

    /// CPU time that a rank has spent.
    pub(super) fn compute(&mut self, rank: u32, picoseconds: f64) {
        let time = self.ranks[rank as usize].time;
        self.rank(rank).time = self.machine.occupy(rank, time, rounded(picoseconds));
    }
}
