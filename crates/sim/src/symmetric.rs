//! Plays one rank instead of all, where all do the same.
//!
//! In a ring, a dissemination, Bruck's algorithm or buckets on a whole torus, what rank r does is what rank 0 does, with all
//! ranks shifted: added modulo P, added in each dimension of the torus, or, for recursive doubling, added bit by bit. Then
//! all ranks are at the same point at all times, and if rank 0 sends to d now, then the rank that is shifted by -d sends to
//! rank 0 now. So the only messages that arrive are rank 0's own. Links are the same all over the network as well: what a
//! message does on all links of one direction, its shifted copies do on one. So there is one link for each direction, and a
//! message that goes over several hops is on it so many times.
//!
//! Whether a schedule is symmetric is looked at, not claimed: for all ranks and rounds if there are few, else for some of
//! both, chosen from all scales; all blocks must be of the same length. Messages over exactly half a ring go different ways from even and odd places; with those a
//! torus is not symmetric. Nor is a run where things of one instant might as well have come in another order, and that would
//! matter: that shows while it is played.

mod group;
mod ties;

use treepie_schedule::{Layout, Op, Rounds};
use treepie_topology::{Kind, Network, Tie};

use crate::costs::{Costs, Settings};
use crate::error::{Error, Result};
use crate::machine::Machine;
use crate::noise::{Noise, Random};
use crate::player::{Lengths, Piece, Played, Sizes, lanes_at_once, play_folded};
pub(crate) use group::Group;
pub(crate) use ties::{Instant, Ties};

/// Up to so many ranks, and rounds of a lane, all are looked at.
const FEW: u32 = 64;

/// Plays a schedule from one rank. Nothing if it is not symmetric on this network, or if not all ranks need be served in the
/// same order. The worst link, if any, is one of those
/// that leave rank 0.
pub fn play(piece: Piece<'_>, network: &Network, settings: &Settings) -> Result<Option<Played>> {
    settings.check()?;
    let (schedule, ranks) = (piece.schedule.ranks(), network.ranks());
    if schedule != ranks {
        return Err(Error::Ranks { schedule, network: ranks });
    }
    let Some(group) = find(piece, network, settings) else { return Ok(None) };
    let mut machine = Machine::folded(network, settings)?;
    machine.drive(&settings.costs, lanes_at_once(piece.schedule), network.ports());
    play_folded(piece, machine, group)
}

/// How the ranks of a schedule are shifted copies of rank 0, if they are.
fn find(piece: Piece<'_>, network: &Network, settings: &Settings) -> Option<Group> {
    if settings.noise != (Noise { seed: settings.noise.seed, ..Noise::default() }) {
        return None;
    }
    let Sizes::Shared(layouts) = piece.sizes else { return None };
    let blocks = piece.schedule.blocks();
    if ![&layouts.input, &layouts.output].into_iter().all(|layout| has_equal_blocks(layout, blocks)) {
        return None;
    }
    let ranks = network.ranks();
    let torus = network.torus_kind().filter(|torus| {
        network.is_whole()
            && (0..torus.dims().len()).all(|dimension| torus.wraps(dimension) || torus.dims()[dimension] == 1)
    });
    let by_coordinates = torus.map(|torus| Group::Torus(torus.dims().to_vec()));
    let by_number = [Some(Group::Cyclic(ranks)), ranks.is_power_of_two().then_some(Group::Xor)];
    let on_links = matches!(settings.costs, Costs::Links(_));
    let groups: Vec<Group> = match (&settings.costs, network.kind()) {
        (Costs::Clusters(_), _) => Vec::new(),
        (Costs::LogGp(_), _) | (Costs::Links(_), Kind::Flat(_)) => {
            by_number.into_iter().chain([by_coordinates]).flatten().collect()
        }
        (Costs::Links(_), Kind::Torus(_)) => by_coordinates.into_iter().collect(),
        _ => Vec::new(),
    };
    groups.into_iter().find(|group| Look::new(piece, group, on_links).is_symmetric())
}

/// Whether all blocks are of the same length, so that it does not matter which of them a rank sends.
fn has_equal_blocks(layout: &Layout, blocks: u32) -> bool {
    match layout {
        Layout::Even { total, blocks } => *blocks == 0 || total % *blocks as usize == 0,
        Layout::Listed(_) => (1..blocks).all(|block| layout.range(block, 1).len() == layout.range(0, 1).len()),
    }
}

/// A look at whether ranks are shifted copies of rank 0.
struct Look<'a> {
    piece: Piece<'a>,
    group: &'a Group,
    on_links: bool,
    lengths: Lengths,
    /// What rank 0 does, and what another does.
    ops: [Rounds; 2],
}

impl<'a> Look<'a> {
    fn new(piece: Piece<'a>, group: &'a Group, on_links: bool) -> Self {
        let lengths = Lengths::new(piece.sizes);
        Self { piece, group, on_links, lengths, ops: [Rounds::new(), Rounds::new()] }
    }

    fn is_symmetric(&mut self) -> bool {
        let schedule = self.piece.schedule;
        let shifts = some_of(schedule.ranks());
        (0..schedule.phases()).all(|phase| {
            (0..schedule.phase(phase).lanes).all(|lane| {
                let rounds = schedule.rounds(0, phase, lane);
                let tie = schedule.tie(phase, lane);
                shifts.iter().all(|&shift| schedule.rounds(shift, phase, lane) == rounds)
                    && some_of(rounds).into_iter().all(|round| {
                        self.ops[0].clear();
                        schedule.emit(0, phase, lane, round..round + 1, &mut self.ops[0]);
                        self.no_tie(tie) && shifts.iter().all(|&shift| self.is_copy(shift, (phase, lane, round)))
                    })
            })
        })
    }

    /// Whether rank 0 sends nothing that others send another way round.
    fn no_tie(&self, tie: Tie) -> bool {
        let half = |op: &Op| matches!(*op, Op::Send { to, .. } if self.group.is_half_a_ring(to));
        !self.on_links || tie != Tie::Parity || !self.ops[0].round_or_none(0).iter().any(half)
    }

    fn is_copy(&mut self, shift: u32, (phase, lane, round): (u32, u32, u32)) -> bool {
        let [own, other] = &mut self.ops;
        other.clear();
        self.piece.schedule.emit(shift, phase, lane, round..round + 1, other);
        let (own, other) = (own.round_or_none(0), other.round_or_none(0));
        own.len() == other.len()
            && own.iter().zip(other).all(|(own, other)| {
                let (peer, part, combines) = facts(own);
                let (its_peer, its_part, it_combines) = facts(other);
                std::mem::discriminant(own) == std::mem::discriminant(other)
                    && combines == it_combines
                    && peer.map(|peer| self.group.shift(peer, shift)) == its_peer
                    && self.lengths.of(self.piece, 0, part) == self.lengths.of(self.piece, shift, its_part)
            })
    }
}

/// What an operation costs depends on these.
fn facts(op: &Op) -> (Option<u32>, treepie_schedule::Part, bool) {
    match *op {
        Op::Send { to, part } => (Some(to), part, false),
        Op::Recv { from, part } => (Some(from), part, false),
        Op::RecvReduce { from, part, .. } => (Some(from), part, true),
        Op::Copy { from, .. } => (None, from, false),
        Op::Reduce { from, .. } => (None, from, true),
    }
}

/// All numbers below a few; of many the ends, those around powers of two, and some others.
fn some_of(count: u32) -> Vec<u32> {
    if count <= FEW {
        return (0..count).collect();
    }
    let mut random = Random::new(u64::from(count));
    let mut some = vec![0, count - 1, count / 2, count / 3];
    some.extend((1..32).map(|bit| 1u32 << bit).flat_map(|power| [power - 1, power, count.saturating_sub(power)]));
    some.extend((0..24).map(|_| random.below(u64::from(count)) as u32));
    some.retain(|one| *one < count);
    some.sort_unstable();
    some.dedup();
    some
}
