//! Memory and messages of a protocol: one exchange of all ranks in this thread, counted.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context, ensure};
use treepie_fabric::{BarrierResult, Reactor};
use treepie_sparse::{ExchangeProtocol, ExchangeRoutes, Microbenchmark, ReactorCapabilities, RingPosition};

/// The counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CountedCosts {
    /// Bytes of the protocol state, maximum over ranks.
    pub(super) memory: usize,
    /// Mean messages sent per rank and round: data and protocol messages, without acknowledgements of synchronous
    /// sends.
    pub(super) messages: f64,
}

/// Exchanges the messages of the first round.
pub(super) fn count_costs(
    protocol: ExchangeProtocol,
    capabilities: ReactorCapabilities,
    routes: &ExchangeRoutes,
    benchmark: &Microbenchmark,
) -> anyhow::Result<CountedCosts> {
    let ranks = benchmark.ranks;
    let mut exchanges: Vec<_> = (0..ranks)
        .map(|rank| {
            let messages = benchmark.messages(rank, 0).into_iter().map(|(to, bytes)| (to, vec![0u8; bytes].into()));
            protocol.begin(RingPosition { rank, ranks }, capabilities, routes, messages.collect())
        })
        .collect();
    let mut memory = exchanges.iter().map(|exchange| exchange.memory()).max().unwrap_or(0);
    let (mut in_flight, mut sent) = (VecDeque::new(), 0u64);
    let (mut added, mut arrived, mut bits) = (vec![0; ranks as usize], 0, 0);
    // Each iteration is a step of the protocol on all ranks; a protocol needs far fewer.
    for _ in 0..100 + ranks {
        for (from, exchange) in exchanges.iter_mut().enumerate() {
            while let Some(transmit) = exchange.poll_transmit() {
                sent += 1;
                in_flight.push_back((from, transmit));
            }
            while let Some(to) = exchange.poll_increment() {
                added[to as usize] += 1;
            }
            if let Some(contributed) = exchange.poll_barrier() {
                arrived += 1;
                bits |= contributed;
            }
        }
        if in_flight.is_empty() && arrived == ranks {
            arrived = 0;
            for (exchange, added) in exchanges.iter_mut().zip(&mut added) {
                exchange.on_barrier(BarrierResult { bits, counter: std::mem::take(added) })?;
            }
            continue;
        }
        if in_flight.is_empty() {
            break;
        }
        for (from, transmit) in in_flight.drain(..) {
            let to = exchanges.get_mut(transmit.to as usize).context("a message to an invalid rank")?;
            to.on_message(Duration::ZERO, from as u32, transmit.tag, transmit.bytes)?;
            memory = memory.max(to.memory());
            if transmit.synchronous {
                exchanges[from].on_ack(transmit.to, transmit.tag);
            }
        }
    }
    ensure!(exchanges.iter().all(|exchange| exchange.is_done()), "{protocol} among {ranks} ranks does not complete");
    Ok(CountedCosts { memory, messages: sent as f64 / f64::from(ranks) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_agree_with_the_protocols_headers() {
        let benchmark = Microbenchmark::new(1, 16, 6);
        let routes = ExchangeRoutes::default();
        let messages =
            |protocol, capabilities| count_costs(protocol, capabilities, &routes, &benchmark).unwrap().messages;
        let (none, all) = (
            ReactorCapabilities::default(),
            ReactorCapabilities { barrier: true, barrier_flushes: true, counters: true },
        );
        // Data, and a barrier of ceil(lg P) rounds or none; RSX announces each message.
        for (protocol, by_messages, by_engine) in [
            (ExchangeProtocol::Pcx, 10.0, 10.0),
            (ExchangeProtocol::Rsx, 16.0, 6.0),
            (ExchangeProtocol::Nbx, 10.0, 6.0),
            (ExchangeProtocol::NbxAllChannels, 15.0, 15.0),
            (ExchangeProtocol::Crystal, 4.0, 4.0),
        ] {
            assert_eq!((messages(protocol, none), messages(protocol, all)), (by_messages, by_engine), "{protocol}");
        }
        assert_eq!(messages(ExchangeProtocol::NbxOrderedBarrier, all), 6.0);
    }

    #[test]
    fn memory_grows_with_ranks_where_a_protocol_has_tables() {
        let count = |protocol, ranks, neighbors| {
            let benchmark = Microbenchmark::new(1, ranks, neighbors);
            count_costs(protocol, ReactorCapabilities::default(), &ExchangeRoutes::default(), &benchmark)
        };
        let memory = |protocol, ranks| count(protocol, ranks, 6).unwrap().memory;
        assert!(memory(ExchangeProtocol::Pcx, 512) > 4 * memory(ExchangeProtocol::Pcx, 64));
        assert_eq!(memory(ExchangeProtocol::Nbx, 512), memory(ExchangeProtocol::Nbx, 64));
        // It also completes without any message.
        for protocol in ExchangeProtocol::ALL {
            assert!(count(protocol, 2, 0).is_ok(), "{protocol}");
        }
    }
}
