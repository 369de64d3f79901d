//! Shares of links against a plain reference: at each step the speeds of all flows from scratch, in floating point.

mod common;

use common::network;
use treepie_sim::costs::Links;
use treepie_sim::noise::Random;
use treepie_sim::{Machine, Message, Time, What};
use treepie_topology::{Network, Tie};

/// Microseconds of a byte over a link: in picoseconds no whole number.
const DELTA: f64 = 1.0 / 0.377;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Sent {
    at: Time,
    from: u32,
    to: u32,
    bytes: u64,
}

/// Up to forty messages, many of them at the same time.
fn messages(random: &mut Random, ranks: u64) -> Vec<Sent> {
    let mut one = || Sent {
        at: random.below(6) * 37_000_000 + random.below(2) * random.below(1000),
        from: random.below(ranks) as u32,
        to: random.below(ranks) as u32,
        bytes: 1 + random.below(5) * random.below(100),
    };
    let mut all: Vec<Sent> = (0..40).map(|_| one()).filter(|message| message.from != message.to).collect();
    all.sort_unstable();
    all
}

fn simulated(network: &Network, messages: &[Sent]) -> Vec<Time> {
    let links = Links { ports: Some(1000), ..Links::new(0.0, DELTA) };
    let mut machine = Machine::new(network, &links.into()).unwrap();
    (0..).zip(messages).for_each(|(token, message)| machine.wake(message.at, message.from, token));
    let mut ends = vec![0; messages.len()];
    while let Some(happening) = machine.next() {
        match happening.what {
            What::Woken { token } => {
                let Sent { from, to, bytes, .. } = messages[token as usize];
                machine.send(happening.time, Message { from, to, bytes, channel: 0, token, tie: Tie::Plus });
            }
            What::Delivered { token, .. } => ends[token as usize] = happening.time,
            _ => {}
        }
    }
    ends
}

fn reference(network: &Network, messages: &[Sent]) -> Vec<f64> {
    let way = |message: &Sent| {
        let mut way = Vec::new();
        network.route(message.from, message.to, Tie::Plus, |link| way.push(link));
        way
    };
    let ways: Vec<Vec<u32>> = messages.iter().map(way).collect();
    let mut left: Vec<f64> = messages.iter().map(|message| message.bytes as f64 * DELTA * 1e6).collect();
    let mut ends = vec![f64::INFINITY; messages.len()];
    let mut now = 0.0;
    loop {
        let flows = |i: usize| messages[i].at as f64 <= now && left[i] > 0.0;
        let mut load = vec![0.0; network.links() as usize];
        for i in (0..messages.len()).filter(|i| flows(*i)) {
            ways[i].iter().for_each(|link| load[*link as usize] += 1.0);
        }
        let share = |link: &u32| network.capacity(*link) / load[*link as usize];
        let speeds: Vec<f64> = (0..messages.len())
            .map(|i| if flows(i) { ways[i].iter().map(share).fold(f64::INFINITY, f64::min) } else { 0.0 })
            .collect();
        let next = (0..messages.len()).map(|i| match speeds[i] {
            speed if speed > 0.0 => now + left[i] / speed,
            _ if left[i] > 0.0 => messages[i].at as f64,
            _ => f64::INFINITY,
        });
        let next = next.fold(f64::INFINITY, f64::min);
        if next.is_infinite() {
            return ends;
        }
        for i in (0..messages.len()).filter(|i| speeds[*i] > 0.0) {
            left[i] -= (next - now) * speeds[i];
            if left[i] < 1e-3 {
                (left[i], ends[i]) = (0.0, next);
            }
        }
        now = next;
    }
}

#[test]
fn messages_take_as_long_as_a_plain_reference_says() {
    let mut random = Random::new(11);
    for text in ["torus:5x4", "mesh:4x4", "torus:7", "clos:r6,t4,n16", "clos:r11,t8,n16", "flat:9"] {
        let network = network(text);
        for _ in 0..40 {
            let messages = messages(&mut random, u64::from(network.ranks()));
            for ((message, simulated), end) in
                messages.iter().zip(simulated(&network, &messages)).zip(reference(&network, &messages))
            {
                // Each time that a flow ends it is rounded, and others begin or go on from there.
                assert!((simulated as f64 - end).abs() <= 40.0, "{text}, {message:?}: {simulated} and {end} ps");
            }
        }
    }
}
