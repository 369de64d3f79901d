//! All ranks of an exchange in one thread, on a network that delays and reorders messages by a seed.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use treepie_base::{Bytes, Error, Region};
use treepie_fabric::{PeerDependency, Reactor, Transmit};

use super::forwarding::{sides, stages};
use super::{ForwardingScheme, HEADER, Item, StoreAndForward, append};

/// Pseudorandom numbers (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % limit as u64) as usize
    }
}

/// Source, destination and tag.
type Link = (u32, u32, u32);

/// A fault: the number of messages before it, and its effect.
type Fault<'a> = Option<(usize, &'a dyn Fn(Transmit) -> Option<Transmit>)>;

/// Messages and bytes sent by each rank.
struct Traffic {
    messages: Vec<usize>,
    bytes: Vec<usize>,
}

/// Messages in flight.
#[derive(Default)]
struct Wires {
    queues: HashMap<Link, VecDeque<Bytes>>,
    /// Links with messages.
    busy: Vec<Link>,
}

impl Wires {
    fn put(&mut self, from: u32, transmit: Transmit) {
        let link = (from, transmit.to, transmit.tag);
        let queue = self.queues.entry(link).or_default();
        if queue.is_empty() {
            self.busy.push(link);
        }
        queue.push_back(transmit.bytes);
    }

    /// Takes the first message of a random link.
    fn take(&mut self, random: &mut Random) -> Option<(Link, Bytes)> {
        if self.busy.is_empty() {
            return None;
        }
        let index = random.below(self.busy.len());
        let link = self.busy[index];
        let queue = self.queues.get_mut(&link).expect("a busy link has a queue");
        let bytes = queue.pop_front().expect("a busy link has messages");
        if queue.is_empty() {
            self.busy.swap_remove(index);
        }
        Some((link, bytes))
    }
}

/// Runs all ranks until no event is left. Polling of ranks is delayed as well.
fn simulate(all: &mut [StoreAndForward], random: &mut Random, fault: Fault<'_>) -> Result<Traffic, Error> {
    let mut traffic = Traffic { messages: vec![0; all.len()], bytes: vec![0; all.len()] };
    let (mut wires, mut late, mut sent): (Wires, Vec<u32>, _) = (Wires::default(), (0..all.len() as u32).collect(), 0);
    let mut now = Duration::ZERO;
    loop {
        now += Duration::from_nanos(random.below(1000) as u64);
        if !late.is_empty() && (wires.busy.is_empty() || random.below(3) == 0) {
            let rank = late.swap_remove(random.below(late.len()));
            while let Some(transmit) = all[rank as usize].poll_transmit() {
                traffic.messages[rank as usize] += 1;
                traffic.bytes[rank as usize] += transmit.bytes.as_slice().len();
                let transmit = match fault {
                    Some((before, inject)) if before == sent => inject(transmit),
                    _ => Some(transmit),
                };
                sent += 1;
                transmit.into_iter().for_each(|transmit| wires.put(rank, transmit));
            }
        } else if let Some(((from, to, tag), bytes)) = wires.take(random) {
            all[to as usize].on_message(now, from, tag, bytes)?;
            late.push(to);
        } else {
            return Ok(traffic);
        }
    }
}

/// The items from one rank to another: several, or none.
fn items(from: u32, to: u32, lengths: &dyn Fn(u32, u32) -> Vec<usize>) -> Vec<Vec<u8>> {
    let item = |(i, len): (usize, usize)| (0..len).map(|at| (from * 7 + to * 31 + (i + at) as u32) as u8).collect();
    lengths(from, to).into_iter().enumerate().map(item).collect()
}

fn region(bytes: Vec<u8>) -> Region {
    Region::from(Bytes::from(bytes))
}

fn exchange(
    ranks: u32,
    scheme: ForwardingScheme,
    lengths: &dyn Fn(u32, u32) -> Vec<usize>,
    random: &mut Random,
    fault: Fault<'_>,
) -> Result<Traffic, String> {
    let of = |from: u32| {
        (0..ranks).flat_map(move |to| items(from, to, lengths).into_iter().map(move |item| (to, region(item))))
    };
    let mut all: Vec<_> = (0..ranks).map(|rank| StoreAndForward::new(rank, ranks, scheme, of(rank))).collect();
    let traffic = simulate(&mut all, random, fault).map_err(|error| error.to_string())?;
    for (rank, reactor) in all.iter_mut().enumerate() {
        if !reactor.is_done() {
            return Err(format!("rank {rank} does not complete"));
        }
        let got = reactor.take_items();
        let got = got.iter().map(|(origin, bytes)| (*origin, bytes.read(0..bytes.len(), <[u8]>::to_vec)));
        let want = (0..ranks).flat_map(|from| {
            items(from, rank as u32, lengths).into_iter().map(move |item| (from, item)).collect::<Vec<_>>()
        });
        if !got.eq(want) {
            return Err(format!("rank {rank} has items that were not sent to it"));
        }
    }
    Ok(traffic)
}

/// The schemes under test.
const SCHEMES: [ForwardingScheme; 5] = [
    ForwardingScheme::Grid(1),
    ForwardingScheme::Grid(2),
    ForwardingScheme::Grid(3),
    ForwardingScheme::Grid(32),
    ForwardingScheme::Bruck,
];

/// A few items for each pair, mostly short, of pseudorandom lengths.
fn random_lengths(seed: u64) -> impl Fn(u32, u32) -> Vec<usize> {
    move |from, to| {
        let mut random = Random(seed ^ (u64::from(from) << 32 | u64::from(to)));
        let count = [1, 1, 0, 2, 1, 5, 0][random.below(7)];
        (0..count).map(|_| [0, 1, 8, random.below(40), random.below(400)][random.below(5)]).collect()
    }
}

/// Number of messages that a rank sends.
fn messages(ranks: u32, rank: u32, scheme: ForwardingScheme) -> usize {
    stages(rank, ranks, scheme).iter().map(|stage| stage.receivers.len() - 1).sum()
}

/// The sides of a grid. In a stage around the ring half of the ranks are in the other part, as with a side of two.
fn sides_of(ranks: u32, scheme: ForwardingScheme) -> Vec<u32> {
    match scheme {
        ForwardingScheme::Grid(dimensions) => sides(ranks, dimensions),
        ForwardingScheme::Bruck => vec![2; ranks.next_power_of_two().ilog2() as usize],
    }
}

fn check(ranks: u32, scheme: ForwardingScheme, seed: u64) {
    let context = format!("{ranks} ranks, {scheme:?}, seed {seed}");
    let traffic = exchange(ranks, scheme, &random_lengths(seed), &mut Random(seed), None);
    let traffic = traffic.unwrap_or_else(|what| panic!("{context}: {what}"));
    let sides = sides_of(ranks, scheme);
    let max_messages: u32 = sides.iter().map(|side| side - 1).sum();
    for (rank, sent) in traffic.messages.iter().enumerate() {
        assert_eq!(*sent, messages(ranks, rank as u32, scheme), "{context}: messages of rank {rank}");
        assert!(*sent <= max_messages as usize, "{context}: messages of rank {rank}");
        let is_full = sides.iter().product::<u32>() == ranks;
        assert!(!is_full || *sent == max_messages as usize, "{context}: messages of rank {rank}");
    }
}

#[test]
fn everything_arrives_in_any_order_of_messages() {
    for scheme in SCHEMES {
        for ranks in 1..34 {
            (0..if ranks < 12 { 60 } else { 12 }).for_each(|seed| check(ranks, scheme, seed));
        }
        (0..2).for_each(|seed| check(64, scheme, seed));
        check(100, scheme, 0);
    }
}

#[test]
fn thousands_of_seeds() {
    for seed in 0..4000 {
        let ranks = [5, 6, 7, 8, 9, 3][seed as usize % 6];
        check(ranks, SCHEMES[1 + seed as usize / 6 % 4], seed);
    }
}

#[test]
fn one_huge_item_and_nothing_else() {
    for scheme in SCHEMES {
        let lengths = |from, to| if (from, to) == (3, 11) { vec![3 << 20] } else { Vec::new() };
        let traffic = exchange(13, scheme, &lengths, &mut Random(1), None).expect("it arrives");
        let carried = traffic.bytes.iter().filter(|bytes| **bytes > 3 << 20).count();
        assert!((1..=4).contains(&carried), "{carried} ranks forwarded it");
        assert!(traffic.bytes.iter().all(|bytes| *bytes == 0 || *bytes == (3 << 20) + HEADER), "others sent nothing");
    }
}

#[test]
fn equal_blocks_are_sent_as_often_as_predicted() {
    // d n (s-1)/s for n = P blocks, s the side.
    for (ranks, dimensions, side, stages) in
        [(64, 1, 64, 1), (64, 2, 8, 2), (64, 3, 4, 3), (64, 32, 2, 6), (100, 2, 10, 2), (27, 3, 3, 3), (8, 32, 2, 3)]
    {
        let traffic = exchange(ranks, ForwardingScheme::Grid(dimensions), &|_, _| vec![24], &mut Random(5), None)
            .expect("all arrive");
        let blocks = stages * (ranks as usize / side) * (side - 1);
        assert_eq!(
            traffic.bytes,
            vec![blocks * (24 + HEADER); ranks as usize],
            "{ranks} ranks, {dimensions} dimensions"
        );
        assert_eq!(traffic.messages, vec![stages * (side - 1); ranks as usize]);
    }
}

#[test]
fn load_is_balanced_on_grids_with_gaps() {
    for ranks in (2..40).chain([55, 63, 95, 100, 111, 127, 128, 129]) {
        for scheme in SCHEMES {
            let traffic = exchange(ranks, scheme, &|_, _| vec![8], &mut Random(5), None).expect("all arrive");
            let max_bytes = *traffic.bytes.iter().max().expect("there are ranks");
            let blocks: f64 =
                sides_of(ranks, scheme).iter().map(|side| f64::from(ranks * (side - 1)) / f64::from(*side)).sum();
            let ratio = max_bytes as f64 / (blocks * (8 + HEADER) as f64);
            assert!(ratio < 1.25, "{ranks} ranks, {scheme:?}: one rank sends {ratio:.2} times the predicted volume");
        }
    }
}

/// The simulation detects the faults that it is meant to detect.
#[test]
fn faults_are_detected() {
    for scheme in SCHEMES {
        let run = |fault: Fault<'_>| exchange(9, scheme, &|_, _| vec![4], &mut Random(2), fault);
        let sent: usize = run(None).expect("no fault").messages.iter().sum();
        let lost = run(Some((sent - 1, &|_| None))).err().expect("the last bundle is lost");
        assert!(lost.contains("does not complete"), "{lost}");
        let with = |change: fn(&mut [u8])| {
            move |transmit: Transmit| {
                let mut bytes = transmit.bytes.as_slice().to_vec();
                change(&mut bytes);
                Some(Transmit { bytes: Bytes::from(bytes), ..transmit })
            }
        };
        let origin = run(Some((sent - 1, &with(|bytes| bytes[4] = (bytes[4] + 1) % 9)))).err();
        assert!(origin.expect("a wrong origin is detected").contains("not sent to it"));
        let truncated = run(Some((0, &with(|bytes| bytes[8] = 200)))).err();
        assert!(truncated.expect("an invalid length is detected").contains("disagree"));
        let misrouted = run(Some((0, &with(|bytes| bytes[0] = 9)))).err();
        assert!(misrouted.expect("an invalid destination is detected").contains("disagree"));
    }
}

#[test]
fn unexpected_messages_are_refused() {
    let mut reactor = StoreAndForward::new(0, 4, ForwardingScheme::Grid(2), []);
    assert_eq!(
        (0..4).filter(|rank| reactor.dependency_on(*rank) == PeerDependency::Required).collect::<Vec<_>>(),
        [1, 2]
    );
    let mut deliver = |from, tag| reactor.on_message(Duration::ZERO, from, tag, Bytes::zeroed(0, 1));
    assert_eq!(deliver(3, 0), Err(Error::LengthMismatch { got: 0, expected: 0 }));
    assert_eq!(deliver(1, 7), Err(Error::LengthMismatch { got: 0, expected: 0 }));
    assert_eq!(deliver(2, 0), Ok(()));
    assert_eq!(deliver(2, 0), Err(Error::LengthMismatch { got: 0, expected: 0 }));
}

#[test]
fn misrouted_items_are_refused() {
    for (scheme, from, wrong, right) in [(ForwardingScheme::Grid(2), 2, 3, 1), (ForwardingScheme::Bruck, 3, 3, 2)] {
        for (to, is_right) in [(wrong, false), (right, true)] {
            let mut reactor = StoreAndForward::new(0, 4, scheme, []);
            let mut bundle = Vec::new();
            append(&mut bundle, &Item { to, origin: from, bytes: region(vec![1]) });
            let result = reactor.on_message(Duration::ZERO, from, 0, Bytes::from(bundle));
            assert_eq!(result.is_ok(), is_right, "{scheme:?}, for rank {to}");
        }
    }
}

#[test]
fn blocks_around_the_ring_are_sent_once_for_each_power_of_two_in_their_distance() {
    for ranks in [1u32, 2, 5, 8, 13, 64, 129] {
        let traffic =
            exchange(ranks, ForwardingScheme::Bruck, &|_, _| vec![24], &mut Random(5), None).expect("all arrive");
        let blocks: usize = (0..ranks).map(|distance| distance.count_ones() as usize).sum();
        assert_eq!(traffic.bytes, vec![blocks * (24 + HEADER); ranks as usize], "{ranks} ranks");
    }
}
