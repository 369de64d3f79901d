//! Results of programs: the same as on threads, on any network and with any delays; and runs are reproducible.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use treepie::prelude::*;
use treepie::simulate::{ClusterCosts, LinkCosts, Options, PLogP, Settings, WanLink};
use treepie::{Network, Result};

use crate::{flat, launch, noisy, ok, plain, simulate, simulate_with};

/// A token travels around the ring; each rank returns what it received.
fn ring(world: &Comm) -> Result<Vec<u64>> {
    let (me, size) = (world.rank(), world.size());
    let (left, right) = ((me + size - 1) % size, (me + 1) % size);
    if me == 0 {
        world.send(&[1u64], right, 3)?;
        return Ok(world.recv_vec(left, 3)?.0);
    }
    let (token, _) = world.recv_vec::<u64>(left, 3)?;
    world.send(&[token[0].wrapping_mul(3).wrapping_add(me as u64)], right, 3)?;
    Ok(token)
}

fn ring_reference(size: usize) -> Vec<Vec<u64>> {
    let mut tokens = vec![1u64];
    (1..size).for_each(|rank| tokens.push(tokens[rank - 1].wrapping_mul(3).wrapping_add(rank as u64)));
    // Rank r receives what r - 1 sent; rank 0 what the last rank sent.
    let last = tokens.pop().expect("one at least");
    std::iter::once(last).chain(tokens).map(|token| vec![token]).collect()
}

pub(crate) fn sums(world: &Comm) -> Result<Vec<u64>> {
    let data: Vec<u64> = (0..20).map(|i| (world.rank() as u64 + 1) * (i + 1)).collect();
    world.allreduce(&data, Sum)
}

/// NBX: synchronous sends, probes, and a nonblocking barrier that starts when all local sends have completed. Rounds
/// have different tags, as others may be a round ahead.
fn exchange(world: &Comm, to: Vec<(usize, Vec<u64>)>, round: Tag) -> Result<Vec<(usize, Vec<u64>)>> {
    let mut sending = Vec::new();
    for (rank, data) in to {
        sending.push(world.issend(data, rank, round)?);
    }
    let (mut got, mut barrier) = (Vec::new(), None);
    loop {
        if let Some(message) = world.improbe(ANY_SOURCE, round)? {
            let source = message.status().source;
            got.push((source, message.recv_vec()?));
        }
        match &mut barrier {
            None => {
                sending.retain_mut(|send| send.test().is_none());
                if sending.is_empty() {
                    barrier = Some(world.ibarrier()?);
                }
            }
            Some(barrier) => {
                if let Some(done) = barrier.test() {
                    done?;
                    got.sort();
                    return Ok(got);
                }
            }
        }
    }
}

fn targets(rank: usize, size: usize) -> impl Iterator<Item = usize> {
    (0..rank % 4).map(move |i| (rank * 31 + i * 17 + 5) % size)
}

fn sparse(world: &Comm) -> Result<Vec<u64>> {
    let (me, size) = (world.rank(), world.size());
    let mut all = Vec::new();
    for round in 0..2 {
        let to = targets(me, size).map(|to| (to, vec![me as u64, u64::from(round)])).collect();
        all.extend(exchange(world, to, round)?.into_iter().flat_map(|(_, data)| data));
    }
    Ok(all)
}

fn sparse_reference(size: usize) -> Vec<Vec<u64>> {
    let received = |to: usize, round: u64| {
        let mut from: Vec<usize> =
            (0..size).flat_map(|from| targets(from, size).filter(move |t| *t == to).map(move |_| from)).collect();
        from.sort_unstable();
        from.into_iter().flat_map(move |from| [from as u64, round]).collect::<Vec<_>>()
    };
    (0..size).map(|to| (0..2).flat_map(|round| received(to, round)).collect()).collect()
}

const VERTICES: usize = 4;
const UNREACHED: u64 = u64::MAX;

fn neighbors(vertex: usize, all: usize) -> [usize; 3] {
    [(vertex + 1) % all, (vertex + all - 1) % all, (vertex * 7 + 3) % all]
}

/// Breadth-first search from vertex 0; each rank owns some vertices and returns their distances.
fn bfs(world: &Comm) -> Result<Vec<u64>> {
    let (me, size) = (world.rank(), world.size());
    let all = size * VERTICES;
    let mut distances = vec![UNREACHED; VERTICES];
    let mut frontier: Vec<usize> = if me == 0 { vec![0] } else { Vec::new() };
    if me == 0 {
        distances[0] = 0;
    }
    for level in 1.. {
        let mut to: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for vertex in frontier.drain(..).flat_map(|vertex| neighbors(vertex, all)) {
            to.entry(vertex / VERTICES).or_default().push(vertex as u64);
        }
        world.compute(Duration::from_nanos(100));
        for vertex in exchange(world, to.into_iter().collect(), level)?.into_iter().flat_map(|(_, vertices)| vertices) {
            let distance = &mut distances[vertex as usize % VERTICES];
            if *distance == UNREACHED {
                *distance = u64::from(level);
                frontier.push(vertex as usize);
            }
        }
        if world.allreduce(&[frontier.len() as u64], Sum)?[0] == 0 {
            break;
        }
    }
    Ok(distances)
}

fn bfs_reference(size: usize) -> Vec<Vec<u64>> {
    let all = size * VERTICES;
    let mut distances = vec![UNREACHED; all];
    let mut queue = VecDeque::from([0]);
    distances[0] = 0;
    while let Some(vertex) = queue.pop_front() {
        for next in neighbors(vertex, all) {
            if distances[next] == UNREACHED {
                distances[next] = distances[vertex] + 1;
                queue.push_back(next);
            }
        }
    }
    distances.chunks(VERTICES).map(<[u64]>::to_vec).collect()
}

type Program = fn(&Comm) -> Result<Vec<u64>>;
type Reference = fn(usize) -> Vec<Vec<u64>>;

pub(crate) fn sums_reference(size: usize) -> Vec<Vec<u64>> {
    let total: u64 = (1..=size as u64).sum();
    vec![(0..20).map(|i| total * (i + 1)).collect(); size]
}

const PROGRAMS: [(&str, Program, Reference); 4] = [
    ("ring", ring, ring_reference),
    ("sums", sums, sums_reference),
    ("sparse", sparse, sparse_reference),
    ("bfs", bfs, bfs_reference),
];

#[test]
fn programs_compute_the_same_on_threads_and_simulated() {
    for (name, program, reference) in PROGRAMS {
        let on_threads = launch(12, |world| program(&world)).expect("threads");
        let on_threads: Vec<Vec<u64>> = on_threads.into_iter().map(|result| result.expect(name)).collect();
        assert_eq!(on_threads, reference(12), "{name} on threads");
        for seed in 0..5 {
            let simulated = simulate(&flat(12), &noisy(seed), |world| program(&world)).expect(name);
            assert_eq!(ok(simulated), on_threads, "{name} with seed {seed}");
        }
    }
}

#[test]
fn a_thousand_ranks_compute_what_the_reference_does() {
    // A microsecond per unsuccessful poll, so that there are fewer of them.
    let options = Options { poll_cost: 1.0, ..Options::default() };
    for (name, program, reference) in PROGRAMS {
        let simulated = simulate_with(&flat(1024), &plain(), &options, |world| program(&world)).expect(name);
        assert!(simulated.messages > 1000 && simulated.makespan > 0);
        assert_eq!(ok(simulated), reference(1024), "{name}");
    }
}

#[test]
fn the_same_on_every_kind_of_network() {
    let links = Settings::from(LinkCosts::new(6.0, 0.002));
    let wide = WanLink { latency: 1000.0, bandwidth: 1.0 };
    let far: Settings = ClusterCosts::uniform(PLogP::from_latency_bandwidth(20.0, 50.0), wide, 3).into();
    let networks = [("torus:4x4", &links), ("mesh:2x8", &links), ("clos:r8,t4,n16", &links), ("clusters:8+6+2", &far)];
    for (text, settings) in networks {
        let network = text.parse::<Network>().and_then(|network| network.for_ranks(16)).expect(text);
        for (name, program, reference) in PROGRAMS {
            let simulated = simulate(&network, settings, |world| program(&world.with_network(text)?)).expect(name);
            assert_eq!(ok(simulated), reference(16), "{name} on {text}");
        }
    }
}

#[test]
fn a_thousand_ranks_on_a_torus_of_links() {
    let network: Network = "torus:8x8x16".parse().expect("a valid network");
    let settings = Settings::from(LinkCosts::new(6.0, 0.002));
    let options = Options { poll_cost: 1.0, trace: true, ..Options::default() };
    for (name, program, reference) in PROGRAMS.into_iter().filter(|(name, ..)| *name != "sparse") {
        let run = || {
            let mut simulated = simulate_with(&network, &settings, &options, |world| program(&world)).expect(name);
            let (mut text, trace) = (String::new(), simulated.trace.take().expect("a trace was requested"));
            trace.write_json(&mut text).expect("writing to a string");
            (text, ok(simulated))
        };
        let (trace, results) = run();
        assert_eq!(results, reference(1024), "{name}");
        assert!(trace.len() > 100_000 && trace == run().0, "{name}: two runs differ");
    }
}

#[test]
fn four_thousand_stacks() {
    let simulated = simulate(&flat(4096), &plain(), |world| sums(&world)).expect("there is room");
    assert_eq!(ok(simulated), sums_reference(4096));
}

#[test]
fn one_seed_gives_one_trace() {
    let trace = |seed| {
        let options = Options { trace: true, ..Options::default() };
        let simulated = simulate_with(&flat(64), &noisy(seed), &options, |world| bfs(&world)).expect("it runs");
        let mut text = String::new();
        simulated.trace.as_ref().expect("a trace was requested").write_json(&mut text).expect("writing to a string");
        assert!(text.len() > 10_000);
        text
    };
    let first = trace(7);
    assert!(first == trace(7), "two runs with one seed differ");
    assert!(first != trace(8), "two seeds do not differ");
}
