//! Rounds in step: what a schedule takes if all ranks begin each round together.   [thesis 3.1]
//!
//! A phase costs alpha for each message of the rank that sends or receives most in it, and for each of its rounds delta for
//! what the busiest link on the way of a message carries ([`treepie_schedule::count`]). That is the level on which the closed
//! forms of the papers are, and it does not depend on how many messages there are at once, so it is the one for algorithms
//! that send P^2 of them.
//!
//! A phase also costs gamma for each byte of the rank that combines and copies most in it, and the time of a barrier if it
//! ends globally. The closed forms count what is combined, and no copies.
//!
//! Clos networks are routed as the costs say, and slow links are narrow ones. Other noise is refused, and so are a cap of
//! memory and a number of ports: what they do shows message by message.
//!
//! It equals the events of [`crate::player`] where a rank sends one message at a time and all ranks are in step: ring,
//! bucket, recursive doubling with one lane. With several lanes it is more: here the start-ups of all lanes of a round come
//! before its transfers, while in events the start-up of one lane goes on during the transfer of another.

use treepie_schedule::count::{Count, Phase, count, count_over};
use treepie_schedule::{End, Op, Rounds};
use treepie_topology::{Kind, Network};

use crate::costs::{Costs, Links, Settings};
use crate::error::{Error, Result};
use crate::network::ways::Ways;
use crate::noise::Noise;
use crate::player::{Lengths, Piece, lanes_at_once};

/// What a schedule costs in rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Phased {
    /// The time in microseconds.
    pub micros: f64,
    /// Start-ups one after the other.
    pub startups: u64,
    /// Bytes over a link one after the other.
    pub bytes_over_link: f64,
    /// Messages of all ranks.
    pub messages: u64,
    /// Bytes of all messages.
    pub bytes: u64,
    /// Microseconds of each phase.
    pub phases: Vec<f64>,
    /// The most links on one way.
    pub hops: u32,
}

/// Costs a schedule in rounds. `settings` must have costs of links.
pub fn phases(piece: Piece<'_>, network: &Network, settings: &Settings) -> Result<Phased> {
    settings.check()?;
    let (schedule, ranks) = (piece.schedule.ranks(), network.ranks());
    if schedule != ranks {
        return Err(Error::Ranks { schedule, network: ranks });
    }
    let Costs::Links(links) = &settings.costs else { return Err(Error::NotLinks) };
    let Noise { seed: _, jitter, slow_ranks, slow_links: _, deaths } = &settings.noise;
    let is_noisy = *jitter > 0.0 || !slow_ranks.is_empty() || !deaths.is_empty();
    if is_noisy || settings.memory_cap.is_some() || links.ports.is_some() {
        return Err(Error::InStep);
    }
    let ways = Ways::new(links, network, &settings.noise, false)?;
    let layouts = |rank| piece.sizes.of(rank).clone();
    let count = if ways.are_its_own(&settings.noise) {
        count(piece.schedule, &layouts, network)
    } else {
        count_over(piece.schedule, &layouts, &ways)
    };
    let per_byte = per_byte(links, network, lanes_at_once(piece.schedule));
    let computing = computing(piece, settings);
    Ok(priced(&count, links, per_byte, piece.element, &computing))
}

/// What the phases take beside messages: combining and copying, and the barriers at their ends.
fn computing(piece: Piece<'_>, settings: &Settings) -> Vec<f64> {
    let schedule = piece.schedule;
    let mut lengths = Lengths::new(piece.sizes);
    let barrier = |phase| if schedule.phase(phase).end == End::Global { settings.barrier } else { 0.0 };
    let worked = |phase| if settings.gamma > 0.0 { most_worked(piece, phase, &mut lengths) as f64 } else { 0.0 };
    let worked: Vec<f64> = (0..schedule.phases()).map(worked).collect();
    (0..).zip(worked).map(|(phase, bytes)| bytes * settings.gamma + barrier(phase)).collect()
}

/// The most bytes that a rank combines and copies in a phase.
fn most_worked(piece: Piece<'_>, phase: u32, lengths: &mut Lengths) -> u64 {
    /// Rounds that are asked for at once.
    const BATCH: u32 = 64;
    let schedule = piece.schedule;
    let mut ops = Rounds::new();
    let mut of_rank = |rank: u32| {
        let mut bytes = 0;
        for lane in 0..schedule.phase(phase).lanes {
            let rounds = schedule.rounds(rank, phase, lane);
            for first in (0..rounds).step_by(BATCH as usize) {
                ops.clear();
                schedule.emit(rank, phase, lane, first..rounds.min(first.saturating_add(BATCH)), &mut ops);
                for op in ops.iter().flatten() {
                    if let Op::RecvReduce { part, .. } | Op::Reduce { from: part, .. } | Op::Copy { from: part, .. } =
                        *op
                    {
                        bytes += lengths.of(piece, rank, part);
                    }
                }
            }
        }
        bytes
    };
    (0..schedule.ranks()).map(&mut of_rank).max().unwrap_or(0)
}

/// What a byte costs over a link when so many lanes go on at once.
fn per_byte(links: &Links, network: &Network, lanes: u32) -> f64 {
    match network.kind() {
        Kind::Flat(_) => links.beta.unwrap_or(links.delta),
        _ => links.delta_driving(lanes.min(network.ports()), network.ports()),
    }
}

fn priced(count: &Count, links: &Links, per_byte: f64, element: u64, computing: &[f64]) -> Phased {
    let element = element as f64;
    let hops = |phase: &Phase| phase.rounds.iter().map(|round| round.hops).max().unwrap_or(0);
    let time = |(phase, computing): (&Phase, &f64)| {
        let hop_time: f64 = phase.rounds.iter().map(|round| f64::from(round.hops) * links.hop).sum();
        phase.messages as f64 * links.alpha + phase.time * element * per_byte + hop_time + computing
    };
    let phases: Vec<f64> = count.phases.iter().zip(computing).map(time).collect();
    Phased {
        micros: phases.iter().sum(),
        startups: count.alpha(),
        bytes_over_link: count.delta() * element,
        messages: count.messages,
        bytes: count.volume * element as u64,
        phases,
        hops: count.phases.iter().map(hops).max().unwrap_or(0),
    }
}
