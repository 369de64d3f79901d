//! Link shares against a simple reference: the rates of all flows from scratch at each step, in floating point.

use crate::common::network;
use treepie_sim::costs::LinkCosts;
use treepie_sim::noise::SplitMix64;
use treepie_sim::{Machine, SimEventKind, SimMessage, Time};
use treepie_topology::{Network, TieBreak};

/// Microseconds per byte over a link: a fraction in picoseconds.
const DELTA: f64 = 1.0 / 0.377;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Sent {
    at: Time,
    from: u32,
    to: u32,
    bytes: u64,
}

/// Up to forty messages, many of them simultaneous.
fn messages(random: &mut SplitMix64, ranks: u64) -> Vec<Sent> {
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
    let links = LinkCosts { ports: Some(1000), ..LinkCosts::new(0.0, DELTA) };
    let mut machine = Machine::new(network, &links.into()).unwrap();
    (0..).zip(messages).for_each(|(token, message)| machine.schedule_wakeup(message.at, message.from, token));
    let mut ends = vec![0; messages.len()];
    while let Some(event) = machine.next() {
        match event.kind {
            SimEventKind::Wakeup { token } => {
                let Sent { from, to, bytes, .. } = messages[token as usize];
                machine.send(event.time, SimMessage { from, to, bytes, channel: 0, token, tie: TieBreak::Plus });
            }
            SimEventKind::Delivered { token, .. } => ends[token as usize] = event.time,
            _ => {}
        }
    }
    ends
}

fn reference(network: &Network, messages: &[Sent]) -> Vec<f64> {
    let route = |message: &Sent| {
        let mut route = Vec::new();
        network.route(message.from, message.to, TieBreak::Plus, |link| route.push(link));
        route
    };
    let routes: Vec<Vec<u32>> = messages.iter().map(route).collect();
    let mut left: Vec<f64> = messages.iter().map(|message| message.bytes as f64 * DELTA * 1e6).collect();
    let mut ends = vec![f64::INFINITY; messages.len()];
    let mut now = 0.0;
    loop {
        let flows = |i: usize| messages[i].at as f64 <= now && left[i] > 0.0;
        let mut load = vec![0.0; network.links() as usize];
        for i in (0..messages.len()).filter(|i| flows(*i)) {
            routes[i].iter().for_each(|link| load[*link as usize] += 1.0);
        }
        let share = |link: &u32| network.capacity(*link) / load[*link as usize];
        let rates: Vec<f64> = (0..messages.len())
            .map(|i| if flows(i) { routes[i].iter().map(share).fold(f64::INFINITY, f64::min) } else { 0.0 })
            .collect();
        let next = (0..messages.len()).map(|i| match rates[i] {
            rate if rate > 0.0 => now + left[i] / rate,
            _ if left[i] > 0.0 => messages[i].at as f64,
            _ => f64::INFINITY,
        });
        let next = next.fold(f64::INFINITY, f64::min);
        if next.is_infinite() {
            return ends;
        }
        for i in (0..messages.len()).filter(|i| rates[*i] > 0.0) {
            left[i] -= (next - now) * rates[i];
            if left[i] < 1e-3 {
                (left[i], ends[i]) = (0.0, next);
            }
        }
        now = next;
    }
}

#[test]
fn deliveries_agree_with_a_simple_reference() {
    let mut random = SplitMix64::new(11);
    for text in ["torus:5x4", "mesh:4x4", "torus:7", "clos:r6,t4,n16", "clos:r11,t8,n16", "flat:9"] {
        let network = network(text);
        for _ in 0..40 {
            let messages = messages(&mut random, u64::from(network.ranks()));
            for ((message, simulated), end) in
                messages.iter().zip(simulated(&network, &messages)).zip(reference(&network, &messages))
            {
                // The end of each flow is rounded, and other flows continue from there.
                assert!((simulated as f64 - end).abs() <= 40.0, "{text}, {message:?}: {simulated} and {end} ps");
            }
        }
    }
}
