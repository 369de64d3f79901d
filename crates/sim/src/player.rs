//! Plays a schedule on a machine, every message as events, without data.
//!
//! A rank is a few words: where it is in its phase, and for each open lane the round and what it still waits for. The
//! operations of a round are written again when it begins, into memory that all share, and forgotten; so a million ranks fit
//! into memory.
//!
//! A round begins when the one before it in its lane has ended. Its operations are served in the order in which they are
//! listed: sends begin, receives are posted, and copies and combinations take the CPU. The k-th message of a pair in a lane
//! meets the k-th receive there. What is received to be combined is combined when it has been received. The round ends when
//! all that is over.

mod lengths;
mod matching;
mod play;
mod rank;
mod round;

use treepie_schedule::{Layouts, Schedule};
use treepie_topology::Network;

use crate::costs::Settings;
use crate::error::{Error, Result};
use crate::machine::Machine;
use crate::symmetric::Group;
use crate::time::{Time, micros};
use crate::trace::Trace;

pub(crate) use lengths::Lengths;

/// How long blocks are. What a rank sends must be as long as what the other receives.
#[derive(Clone, Debug)]
pub enum Sizes {
    /// The same layouts for all ranks.
    Shared(Layouts),
    /// Those of each rank.
    Each(Vec<Layouts>),
}

impl Sizes {
    /// The layouts of a rank.
    #[inline]
    pub fn of(&self, rank: u32) -> &Layouts {
        match self {
            Sizes::Shared(layouts) => layouts,
            Sizes::Each(layouts) => &layouts[rank as usize],
        }
    }
}

/// What is played: a schedule, with elements of so many bytes.
#[derive(Clone, Copy)]
pub struct Piece<'a> {
    /// The schedule.
    pub schedule: &'a dyn Schedule,
    /// How long its blocks are, in elements.
    pub sizes: &'a Sizes,
    /// Bytes of an element.
    pub element: u64,
}

/// How it went.
#[derive(Clone, Debug, PartialEq)]
pub struct Played {
    /// When the last rank was done.
    pub makespan: Time,
    /// When the first rank was done.
    pub first_done: Time,
    /// Messages of all ranks.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Three for each message: it begins, it arrives, it has been received.
    pub events: u64,
    /// Entries of the queue that were worked off.
    pub steps: u64,
    /// The link that carried most for what it can carry, and its bytes, where links are simulated.
    pub worst_link: Option<(u32, u64)>,
    /// The most messages that were on the way at once.
    pub most_in_flight: u64,
    /// Bytes of memory that it took, without the schedule's own, without what a trace takes, and without what keeps messages
    /// in order where noise or messages of one round would change it.
    pub memory: usize,
    /// How many of them were for ranks and their lanes,
    pub memory_ranks: usize,
    /// for links,
    pub memory_links: usize,
    /// and for messages on the way.
    pub memory_in_flight: usize,
}

impl Played {
    /// The time of the whole in microseconds.
    pub fn micros(&self) -> f64 {
        micros(self.makespan)
    }
}

/// Plays a schedule.
pub fn play(piece: Piece<'_>, network: &Network, settings: &Settings) -> Result<Played> {
    Ok(play_on(piece, machine(piece, network, settings)?)?.0)
}

/// Plays a schedule and records what ranks do.
pub fn play_recorded(piece: Piece<'_>, network: &Network, settings: &Settings) -> Result<(Played, Trace)> {
    let mut machine = machine(piece, network, settings)?;
    machine.record();
    let (played, mut machine) = play_on(piece, machine)?;
    Ok((played, machine.take_trace().unwrap_or_default()))
}

fn play_on(piece: Piece<'_>, machine: Machine) -> Result<(Played, Machine)> {
    let mut player = play::Player::new(piece, machine, None);
    player.play()?;
    player.played()
}

/// Plays only rank 0 of a schedule whose ranks are copies of it, on a machine that is folded to one rank.
/// Nothing if others might be served in another order.
pub(crate) fn play_folded(piece: Piece<'_>, machine: Machine, group: Group) -> Result<Option<Played>> {
    let mut player = play::Player::new(piece, machine, Some(group));
    if !player.play()? {
        return Ok(None);
    }
    let (played, _) = player.played()?;
    let ranks = u64::from(piece.schedule.ranks());
    let (messages, bytes, events) =
        (played.messages * ranks, played.bytes.saturating_mul(ranks), played.events * ranks);
    Ok(Some(Played { messages, bytes, events, most_in_flight: played.most_in_flight * ranks, ..played }))
}

fn machine(piece: Piece<'_>, network: &Network, settings: &Settings) -> Result<Machine> {
    let (schedule, ranks) = (piece.schedule.ranks(), network.ranks());
    let mut machine = Machine::new(network, settings)?;
    if schedule != ranks {
        return Err(Error::Ranks { schedule, network: ranks });
    }
    machine.drive(&settings.costs, lanes_at_once(piece.schedule), network.ports());
    Ok(machine)
}

/// How many lanes of a phase go on at once, at most: so many ports a rank drives.
pub(crate) fn lanes_at_once(schedule: &dyn Schedule) -> u32 {
    (0..schedule.phases())
        .map(|phase| {
            let shape = schedule.phase(phase);
            shape.lanes.min(shape.window.max(1))
        })
        .max()
        .unwrap_or(0)
}
