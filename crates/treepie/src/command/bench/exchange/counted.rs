//! What a protocol takes beside time: one exchange of all ranks in this thread, with everything counted.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context, ensure};
use treepie_fabric::{Gathered, Reactor};
use treepie_sparse::{Means, Microbenchmark, Place, Protocol};

/// What was counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Counted {
    /// Bytes of the protocol itself on the rank that has most.
    pub(super) memory: usize,
    /// Messages that a rank sends in a round, on average: data and the protocol's own, but no answers to synchronous ones.
    pub(super) messages: f64,
}

/// Exchanges the messages of the first round.
pub(super) fn count(protocol: Protocol, means: Means, benchmark: &Microbenchmark) -> anyhow::Result<Counted> {
    let ranks = benchmark.ranks;
    let mut exchanges: Vec<_> = (0..ranks)
        .map(|rank| {
            let messages = benchmark.messages(rank, 0).into_iter().map(|(to, bytes)| (to, vec![0u8; bytes].into()));
            protocol.begin(Place { rank, ranks }, means, messages.collect())
        })
        .collect();
    let mut memory = exchanges.iter().map(|exchange| exchange.memory()).max().unwrap_or(0);
    let (mut on_the_way, mut sent) = (VecDeque::new(), 0u64);
    let (mut added, mut arrived, mut census) = (vec![0; ranks as usize], 0, 0);
    // Each turn is a step of the protocol for all; there are far fewer.
    for _ in 0..100 + ranks {
        for (from, exchange) in exchanges.iter_mut().enumerate() {
            while let Some(transmit) = exchange.poll_transmit() {
                sent += 1;
                on_the_way.push_back((from, transmit));
            }
            while let Some(to) = exchange.poll_add() {
                added[to as usize] += 1;
            }
            if let Some(brought) = exchange.poll_arrive() {
                arrived += 1;
                census |= brought;
            }
        }
        if on_the_way.is_empty() && arrived == ranks {
            arrived = 0;
            for (exchange, added) in exchanges.iter_mut().zip(&mut added) {
                exchange.on_gathered(Gathered { census, added: std::mem::take(added) })?;
            }
            continue;
        }
        if on_the_way.is_empty() {
            break;
        }
        for (from, transmit) in on_the_way.drain(..) {
            let to = exchanges.get_mut(transmit.to as usize).context("a message to nobody")?;
            to.on_message(Duration::ZERO, from as u32, transmit.tag, transmit.bytes)?;
            memory = memory.max(to.memory());
            if transmit.synchronous {
                exchanges[from].on_taken(transmit.to, transmit.tag);
            }
        }
    }
    ensure!(exchanges.iter().all(|exchange| exchange.is_done()), "{protocol} among {ranks} ranks does not end");
    Ok(Counted { memory, messages: sent as f64 / f64::from(ranks) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_those_of_the_files_of_the_protocols() {
        let benchmark = Microbenchmark::new(1, 16, 6);
        let messages = |protocol, means| count(protocol, means, &benchmark).unwrap().messages;
        let (none, all) = (Means::default(), Means { barrier: true, arrives_last: true, counters: true });
        // Data, and a barrier of ceil(lg P) rounds or none; RSX announces each message.
        for (protocol, by_messages, by_engine) in [
            (Protocol::Pcx, 10.0, 10.0),
            (Protocol::Rsx, 16.0, 6.0),
            (Protocol::Nbx, 10.0, 6.0),
            (Protocol::NbxAllChannels, 15.0, 15.0),
            (Protocol::Crystal, 4.0, 4.0),
        ] {
            assert_eq!((messages(protocol, none), messages(protocol, all)), (by_messages, by_engine), "{protocol}");
        }
        assert_eq!(messages(Protocol::NbxBehind, all), 6.0);
    }

    #[test]
    fn memory_grows_with_ranks_where_a_protocol_has_tables() {
        let memory =
            |protocol, ranks| count(protocol, Means::default(), &Microbenchmark::new(1, ranks, 6)).unwrap().memory;
        assert!(memory(Protocol::Pcx, 512) > 4 * memory(Protocol::Pcx, 64));
        assert_eq!(memory(Protocol::Nbx, 512), memory(Protocol::Nbx, 64));
        // It ends also where nobody sends anything.
        for protocol in Protocol::ALL {
            assert!(count(protocol, Means::default(), &Microbenchmark::new(1, 2, 0)).is_ok(), "{protocol}");
        }
    }
}
