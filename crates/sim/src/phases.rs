//! Rounds in step: what a schedule takes if all ranks begin each round together.   [thesis 3.1]
//!
//! A phase costs alpha for each message of the rank that sends or receives most in it, and for each of its rounds delta for
//! what the busiest link on the way of a message carries ([`treepie_schedule::count`]). That is the level on which the closed
//! forms of the papers are, and it does not depend on how many messages there are at once, so it is the one for algorithms
//! that send P^2 of them.
//!
//! Clos networks are routed as the costs say, and slow links are narrow ones. Other noise is refused.
//!
//! It equals the events of [`crate::player`] where a rank sends one message at a time and all ranks are in step: ring,
//! bucket, recursive doubling with one lane. With several lanes it is more: here the start-ups of all lanes of a round come
//! before its transfers, while in events the start-up of one lane goes on during the transfer of another.

use treepie_schedule::count::{Count, Phase, count, count_over};
use treepie_topology::{Kind, Network};

use crate::costs::{Costs, Links, Settings};
use crate::error::{Error, Result};
use crate::network::ways::Ways;
use crate::noise::Noise;
use crate::player::{Piece, lanes_at_once};

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
    if *jitter > 0.0 || !slow_ranks.is_empty() || !deaths.is_empty() {
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
    Ok(priced(&count, links, per_byte, piece.element))
}

/// What a byte costs over a link when so many lanes go on at once.
fn per_byte(links: &Links, network: &Network, lanes: u32) -> f64 {
    match network.kind() {
        Kind::Flat(_) => links.beta.unwrap_or(links.delta),
        _ => links.delta_driving(lanes, network.ports()),
    }
}

fn priced(count: &Count, links: &Links, per_byte: f64, element: u64) -> Phased {
    let element = element as f64;
    let hops = |phase: &Phase| phase.rounds.iter().map(|round| round.hops).max().unwrap_or(0);
    let time = |phase: &Phase| {
        let hop_time: f64 = phase.rounds.iter().map(|round| f64::from(round.hops) * links.hop).sum();
        phase.messages as f64 * links.alpha + phase.time * element * per_byte + hop_time
    };
    let phases: Vec<f64> = count.phases.iter().map(time).collect();
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
