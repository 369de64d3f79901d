//! The NBX algorithm written with the public interface: synchronous sends, matched probes and a nonblocking barrier.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use treepie::{ANY_SOURCE, Comm, Rank};

use crate::check::{Outcome, check, check_eq};
use crate::payload::{bytes, check_bytes, seed};
use crate::signals::poll_until;
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("sparse/few-neighbors", 1, few_neighbors),
    Case::new("sparse/large-messages", 1, large_messages),
    Case::new("sparse/all-to-one", 1, all_to_one),
    Case::new("sparse/many-exchanges-in-a-row", 1, many_in_a_row),
];

/// The messages of a rank: destination and length of each.
type Plan = Vec<(Rank, usize)>;

/// The messages that a rank sends in a round; every rank can compute it, so that receivers can check.
fn plan(sender: Rank, round: u64, size: usize, count: usize, len: usize) -> Plan {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(round * 1_000_003 + sender as u64);
    let mut below = move |limit: usize| (random.next_u64() % limit as u64) as usize;
    (0..below(count + 1)).map(|_| (below(size), below(len + 1))).collect()
}

/// Sends what is planned, and returns when the messages of all ranks have been received.
fn exchange(comm: &Comm, round: u64, plans: &[Plan]) -> Outcome {
    let me = comm.rank();
    let tag = (round % 2) as u32;
    let mut sends = Vec::new();
    for (i, &(to, len)) in plans[me].iter().enumerate() {
        sends.push(comm.issend(bytes(seed(me, to, i), len), to, tag)?);
    }
    let mut got: Vec<Vec<Vec<u8>>> = vec![Vec::new(); comm.size()];
    let mut barrier = None;
    poll_until(comm, "the end of a sparse exchange", || {
        while let Some(message) = comm.improbe(ANY_SOURCE, tag)? {
            let from = message.status().source;
            got[from].push(message.recv_vec::<u8>()?);
        }
        match &mut barrier {
            Some(request) => {
                let request: &mut treepie::Request<'_, ()> = request;
                return Ok(request.test().transpose()?.is_some());
            }
            None => {
                let mut pending = Vec::new();
                for mut send in sends.drain(..) {
                    match send.test() {
                        Some(result) => drop(result?),
                        None => pending.push(send),
                    }
                }
                sends = pending;
                if sends.is_empty() {
                    barrier = Some(comm.ibarrier()?);
                }
            }
        }
        Ok(false)
    })?;
    for (from, got) in got.iter().enumerate() {
        let numbered = plans[from].iter().enumerate();
        let want: Vec<(usize, usize)> =
            numbered.filter(|(_, (to, _))| *to == me).map(|(i, (_, len))| (i, *len)).collect();
        check_eq!(got.len(), want.len(), "messages from rank {from} in exchange {round}");
        for (got, (i, len)) in got.iter().zip(want) {
            check_bytes(got, seed(from, me, i), len)?;
        }
    }
    check!(comm.iprobe(ANY_SOURCE, tag)?.is_none(), "a message of exchange {round} arrived after its end");
    Ok(())
}

fn random_exchanges(comm: &Comm, rounds: u64, count: usize, len: usize) -> Outcome {
    for round in 0..rounds {
        let plans: Vec<Plan> = (0..comm.size()).map(|from| plan(from, round, comm.size(), count, len)).collect();
        exchange(comm, round, &plans)?;
    }
    Ok(())
}

fn few_neighbors(comm: &Comm) -> Outcome {
    random_exchanges(comm, 10, 6, 100)
}

fn large_messages(comm: &Comm) -> Outcome {
    random_exchanges(comm, 4, 6, 200_000)
}

fn many_in_a_row(comm: &Comm) -> Outcome {
    random_exchanges(comm, 100, 2, 10)
}

fn all_to_one(comm: &Comm) -> Outcome {
    for round in 0..5 {
        let one = round as usize * 7 % comm.size();
        let plans: Vec<Plan> = (0..comm.size()).map(|from| vec![(one, 10 * from); 20]).collect();
        exchange(comm, round, &plans)?;
    }
    Ok(())
}
