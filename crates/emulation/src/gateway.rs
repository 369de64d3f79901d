//! When messages arrive: the port of their sender, the gateway of its cluster, the link, the port of their receiver.
//!
//! As in the simulator (`sim/src/network/clusters.rs`), but on the clock of the machine, and for records instead of
//! messages. A gateway accepts up to a window of bytes ahead of each of its links; then senders wait.

use std::rc::Rc;

use treepie_base::monotonic_nanos as now;
use treepie_fabric::SharedMemory;
use treepie_sim::costs::PLogP;

use crate::loss::Losses;
use crate::text::{Emulation, LinkSet};

/// Nanoseconds on the clock that all ranks of the machine share.
pub(crate) type Nanos = u64;

pub(crate) fn nanos(micros: f64) -> Nanos {
    (micros * 1e3) as Nanos
}

/// Bytes of each record besides its body that links carry: headers, as of packets.
pub(crate) const HEADER: usize = 64;

/// How far ahead of the clock a rank fills its port: longer than it takes to wake up, so that the port never idles.
const AHEAD: Nanos = 500_000;

/// The network as this rank sees it.
pub(crate) struct Gateways {
    /// The words of the links; the first is the start of the world.
    words: Rc<dyn SharedMemory>,
    start: Nanos,
    lan: PLogP,
    lan_latency: Nanos,
    window: f64,
    /// The link to each rank; none within the cluster.
    links: Vec<Option<OutgoingLink>>,
    /// When the port can send, and can receive.
    out_free: Nanos,
    in_free: Nanos,
}

#[derive(Debug)]
struct OutgoingLink {
    /// The offset of its word: when it has carried everything accepted so far.
    word: u64,
    latency: Nanos,
    /// Nanoseconds for a byte.
    per_byte: f64,
    /// The fraction of packets that are lost, and which.
    loss: f64,
    losses: Losses,
    /// Times from the start, and by what its time for a byte is multiplied from then on.
    slowdowns: Vec<(Nanos, f64)>,
}

/// Whether a record may be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It has left the sender's cluster, or its port, at one time, and arrives at another.
    Accepted(Passage),
    /// Not before this time.
    Wait(Nanos),
}

/// When a record passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passage {
    pub(crate) carried: Nanos,
    pub(crate) due: Nanos,
}

impl Gateways {
    /// Bytes of shared memory.
    pub(crate) fn shared_bytes(emulation: &Emulation) -> u64 {
        8 * (1 + emulation.clusters().num_group_links() as u64)
    }

    /// From the memory that all ranks share.
    pub(crate) fn new(emulation: &Emulation, rank: u32, words: Rc<dyn SharedMemory>) -> Self {
        let begin = now();
        let start = match words.compare_exchange(0, 0, begin) {
            0 => begin,
            earlier => earlier,
        };
        let (network, clusters, costs) = (emulation.network(), emulation.clusters(), emulation.costs());
        let link_to = |to| {
            let link = clusters.link_between(network.node_of(rank), network.node_of(to))?;
            let wan = emulation.wan_link(link.level, link.from, link.to);
            let applies = |set: LinkSet| set.contains(link.from, link.to);
            let loss = emulation.losses.iter().rev().find(|(set, _)| applies(*set)).map_or(0.0, |(_, loss)| *loss);
            let slowdowns = emulation.slowdowns.iter().filter(|slow| applies(slow.link));
            Some(OutgoingLink {
                word: 8 * (1 + link.index as u64),
                latency: nanos(wan.latency),
                per_byte: 1e3 / wan.bandwidth,
                loss,
                losses: Losses::new(rank, to),
                slowdowns: slowdowns.map(|slow| (start + nanos(slow.after * 1e6), slow.factor)).collect(),
            })
        };
        Self {
            start,
            lan: costs.lan.clone(),
            lan_latency: nanos(costs.lan.latency),
            window: costs.window as f64,
            links: (0..network.ranks()).map(link_to).collect(),
            out_free: start,
            in_free: start,
            words,
        }
    }

    /// Sends a record of this length to a rank, if its port and its gateway have room.
    pub(crate) fn admit(&mut self, now: Nanos, to: u32, bytes: usize) -> Admission {
        if self.out_free > now + AHEAD {
            return Admission::Wait(self.out_free - AHEAD);
        }
        let bytes = bytes + HEADER;
        let begin = now.max(self.out_free);
        let gap = nanos(self.lan.gap.at(bytes as f64));
        let at_gateway = begin + self.lan_latency;
        let passage = match &mut self.links[to as usize] {
            None => Passage { carried: begin + gap, due: at_gateway + gap },
            Some(link) => {
                let factor: f64 =
                    link.slowdowns.iter().filter(|(at, _)| now >= *at).map(|(_, factor)| factor).product();
                let per_byte = link.per_byte * factor;
                let room = self.window.max(bytes as f64) - bytes as f64;
                let mut free = read(&*self.words, link.word);
                // Sampled once for each record that is accepted.
                let mut lost = None;
                let end = loop {
                    // Room for this record when the link has carried all but what fits into the window beside it.
                    let has_room_at = free.saturating_sub((room * per_byte) as Nanos);
                    if has_room_at > at_gateway && lost.is_none() {
                        return Admission::Wait(has_room_at - self.lan_latency);
                    }
                    let lost = lost.get_or_insert_with(|| link.losses.of_message(bytes as u64, link.loss));
                    let carried = ((bytes as f64 + lost.bytes as f64) * per_byte) as Nanos;
                    // The link starts with the first byte, and cannot finish before the last has arrived.
                    let end = free.max(at_gateway).saturating_add(carried).max(at_gateway + gap);
                    match self.words.compare_exchange(link.word, free, end) {
                        previous if previous == free => break end,
                        previous => free = previous,
                    }
                };
                let round_trips = lost.map_or(0, |lost| lost.round_trips);
                let latency = link.latency.saturating_mul(1 + 2 * Nanos::from(round_trips)) + self.lan_latency;
                // The slowest links that can be described take centuries for a few records.
                Passage { carried: end, due: end.saturating_add(latency) }
            }
        };
        self.out_free = begin + gap;
        Admission::Accepted(passage)
    }

    /// When the port of this rank has received a record that arrives at `due`, if it is the next.
    pub(crate) fn received_at(&self, due: Nanos, bytes: usize) -> Nanos {
        due.max(self.in_free + nanos(self.lan.gap.at((bytes + HEADER) as f64)))
    }

    /// Takes the port until a record is received.
    pub(crate) fn receive(&mut self, received: Nanos) {
        self.in_free = received;
    }

    /// The time since the start of the world.
    pub(crate) fn elapsed(&self) -> Nanos {
        now().saturating_sub(self.start)
    }
}

fn read(words: &dyn SharedMemory, at: u64) -> u64 {
    let mut word = [0; 8];
    words.load(at, &mut word);
    u64::from_ne_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Words;

    fn gateways(text: &str, ranks: &[u32]) -> Vec<Gateways> {
        let emulation: Emulation = text.parse().unwrap();
        let words = Words::zeroed(Gateways::shared_bytes(&emulation));
        ranks.iter().map(|rank| Gateways::new(&emulation, *rank, words.clone())).collect()
    }

    const MILLI: Nanos = 1_000_000;

    fn due(gateways: &mut Gateways, now: Nanos, to: u32, bytes: usize) -> Nanos {
        match gateways.admit(now, to, bytes) {
            Admission::Accepted(Passage { due, .. }) => due,
            Admission::Wait(until) => panic!("it has to wait until {until}"),
        }
    }

    #[test]
    fn messages_are_delayed_and_metered() {
        let mut all = gateways("clusters:2x2,wan=10ms/1MBps,lan=20us/50MBps", &[0, 1]);
        let start = all[0].start + MILLI;
        // Within a cluster: 20 us, and 20 ns for a byte.
        assert_eq!(due(&mut all[0], start, 1, 1000 - HEADER), start + 40_000);
        // To the other: to the gateway, over the link, and from the gateway.
        let later = start + 2 * MILLI;
        assert_eq!(due(&mut all[0], later, 2, 1000 - HEADER), later + MILLI + 10 * MILLI + 40_000);
        // The ranks of a cluster share its link.
        assert_eq!(due(&mut all[1], later, 3, 1000 - HEADER), later + 2 * MILLI + 10 * MILLI + 40_000);
    }

    #[test]
    fn a_full_window_makes_senders_wait() {
        let mut all = gateways("clusters:2x1,wan=10ms/1MBps,lan=20us/1GBps,window=10000", &[0]);
        let begin = all[0].start + MILLI;
        for _ in 0..10 {
            assert!(matches!(all[0].admit(begin, 1, 1000 - HEADER), Admission::Accepted(_)));
        }
        // The window is full until the link has carried a record.
        assert_eq!(all[0].admit(begin, 1, 1000 - HEADER), Admission::Wait(begin + MILLI));
        assert!(matches!(all[0].admit(begin + MILLI, 1, 1000 - HEADER), Admission::Accepted(_)));
        // A record that is longer than the window needs an idle link.
        assert_eq!(all[0].admit(begin + 5 * MILLI, 1, 20_000 - HEADER), Admission::Wait(begin + 11 * MILLI));
    }

    #[test]
    fn a_link_becomes_slower() {
        let mut all = gateways("clusters:2x1,wan=10ms/1MBps,lan=0us/1GBps,slow:0-1=4@1s", &[0]);
        let start = all[0].start;
        assert_eq!(due(&mut all[0], start + MILLI, 1, 1000 - HEADER), start + 12 * MILLI);
        assert_eq!(due(&mut all[0], start + 1000 * MILLI, 1, 1000 - HEADER), start + 1014 * MILLI);
    }

    #[test]
    fn losses_do_not_depend_on_messages_to_others() {
        let all = |others: bool| {
            let mut all = gateways("clusters:3x1,wan=10ms/1GBps,lan=0us/1GBps,window=1M,loss=50%", &[0]);
            let start = all[0].start;
            let sent = |message: u64| {
                let now = start + message * 1000 * MILLI;
                if others {
                    due(&mut all[0], now, 2, 5000);
                }
                // Round trips until it has arrived.
                (due(&mut all[0], now + MILLI, 1, 5000) - now) / (20 * MILLI)
            };
            (1..50).map(sent).collect::<Vec<_>>()
        };
        assert_eq!(all(false), all(true));
        assert!(all(false).iter().any(|trips| *trips > 2));
    }

    #[test]
    fn the_slowest_link_takes_until_the_end_of_time() {
        let mut all = gateways("clusters:2x1,wan=86400s/1Bps,lan=86400s/1Bps,slow=1e6@0s,window=1M,loss=50%", &[0]);
        let begin = all[0].start + MILLI;
        assert_eq!(due(&mut all[0], begin, 1, 100_000), Nanos::MAX);
        // There is room in the window, and no end to wait for.
        assert_eq!(due(&mut all[0], begin + 1_000_000 * 200 * MILLI, 1, 0), Nanos::MAX);
    }

    #[test]
    fn a_port_receives_one_message_at_a_time() {
        let mut all = gateways("clusters:2x1,lan=20us/50MBps", &[0]);
        let due = all[0].start + MILLI;
        assert_eq!(all[0].received_at(due, 50_000 - HEADER), due);
        all[0].receive(due);
        assert_eq!(all[0].received_at(due, 50_000 - HEADER), due + MILLI);
    }
}
