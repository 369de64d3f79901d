//! Two ranks in one thread, whose engine carries short records only: long messages use a rendezvous and arrive in
//! fragments.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use treepie_base::{Bytes, Error};
use treepie_fabric::{Fabric, FabricEvent, Liveness, RecordHeader};

use super::*;

const SHORT: usize = 64;

/// State shared by the two ranks.
#[derive(Default)]
struct Wire {
    /// Records in flight to each rank.
    records: [VecDeque<(RecordHeader, Vec<u8>)>; 2],
    /// Whether rank 1 has failed.
    lost: bool,
}

struct Port {
    rank: u32,
    wire: Rc<RefCell<Wire>>,
    /// The record returned last.
    current: Vec<u8>,
}

impl Fabric for Port {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        2
    }

    fn name(&self) -> &'static str {
        "test"
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn max_body(&self) -> usize {
        SHORT
    }

    fn try_send(&mut self, to: u32, head: RecordHeader, body: &[u8]) -> bool {
        self.wire.borrow_mut().records[to as usize].push_back((head, body.to_vec()));
        true
    }

    fn poll(&mut self) -> Option<FabricEvent<'_>> {
        let (head, body) = self.wire.borrow_mut().records[self.rank as usize].pop_front()?;
        self.current = body;
        Some(FabricEvent::Record { from: 1 - self.rank, head, body: &self.current })
    }

    fn idle(&mut self, _round: u32) -> bool {
        false
    }

    fn begin_finalize(&mut self) {}

    fn is_finalized(&mut self) -> bool {
        true
    }

    fn announce_failure(&mut self, _: Option<&Error>) {}

    fn liveness_epoch(&self) -> u32 {
        u32::from(self.wire.borrow().lost)
    }

    fn liveness(&self, rank: u32) -> Liveness {
        if rank == 1 && self.wire.borrow().lost { Liveness::Failed } else { Liveness::Alive }
    }
}

/// A scripted reactor: sends the given messages, and is done when it has received `needs` messages.
#[derive(Default)]
struct Script {
    sends: VecDeque<Transmit>,
    /// Ranks on which it depends.
    waits_for: Vec<u32>,
    /// Tags and lengths of received messages.
    got: Vec<(u32, usize)>,
    needs: usize,
    /// Destinations and tags of synchronous messages that were acknowledged.
    acked: Vec<(u32, u32)>,
    /// It rejects messages of this length.
    refuses: Option<usize>,
}

impl Reactor for Script {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        self.sends.pop_front()
    }

    fn on_message(&mut self, _now: Duration, _from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        let len = bytes.as_slice().len();
        self.got.push((tag, len));
        let refused = self.refuses == Some(len);
        if refused { Err(Error::LengthMismatch { got: len as u64, expected: 0 }) } else { Ok(()) }
    }

    fn on_ack(&mut self, to: u32, tag: u32) {
        self.acked.push((to, tag));
    }

    fn dependency_on(&self, rank: u32) -> PeerDependency {
        if self.waits_for.contains(&rank) { PeerDependency::Required } else { PeerDependency::Nothing }
    }

    fn is_done(&self) -> bool {
        self.got.len() >= self.needs
    }
}

/// A script that sends messages of these tags and lengths to the other rank.
fn sending(to: u32, messages: &[(u32, usize)]) -> Script {
    let transmit = |(tag, len): &(u32, usize)| Transmit::new(to, *tag, Bytes::zeroed(*len, 1));
    Script { sends: messages.iter().map(transmit).collect(), ..Script::default() }
}

/// A script that needs this number of messages, and depends on these ranks.
fn expecting(needs: usize, waits_for: &[u32]) -> Script {
    Script { waits_for: waits_for.to_vec(), needs, ..Script::default() }
}

/// The result of a script, and the messages it received.
type Ended = (Result<()>, Vec<(u32, usize)>);

struct World {
    wire: Rc<RefCell<Wire>>,
    endpoints: [Endpoint; 2],
}

impl World {
    fn new() -> Self {
        let wire = Rc::new(RefCell::new(Wire::default()));
        let port = |rank| Endpoint::new(Box::new(Port { rank, wire: wire.clone(), current: Vec::new() }));
        Self { endpoints: [port(0), port(1)], wire }
    }

    /// Runs a script on each rank until both have ended, and returns their results.
    fn run(&mut self, scripts: [Script; 2]) -> [Ended; 2] {
        let mut running = scripts.map(|script| (ReactorTask::new(script, 1, 5), None));
        for _ in 0..1000 {
            for ((running, result), endpoint) in running.iter_mut().zip(&mut self.endpoints) {
                endpoint.progress();
                if result.is_none() {
                    *result = running.step(endpoint);
                }
            }
        }
        running.map(|(running, result)| (result.expect("it ends"), running.reactor.got))
    }
}

#[test]
fn messages_of_a_pair_and_tag_arrive_in_order() {
    // The short ones overtake the long ones in flight.
    let sent = [(3, 1000), (3, 2), (4, 1), (3, 90_000), (3, 0)];
    let [(receiver, got), (sender, _)] = World::new().run([expecting(5, &[1]), sending(0, &sent)]);
    assert_eq!((receiver, sender), (Ok(()), Ok(())));
    assert_eq!(got, sent);
}

#[test]
fn concurrent_instances_get_their_own_messages() {
    let World { endpoints: [here, there], .. } = &mut World::new();
    let receiving = |instance| ReactorTask::new(expecting(1, &[1]), 1, instance);
    let (mut first, mut second) = (receiving(5), receiving(6));
    assert!(first.step(here).is_none() && second.step(here).is_none());
    // The second instance is faster there.
    for (instance, len) in [(6, 6), (5, 5)] {
        assert_eq!(ReactorTask::new(sending(0, &[(0, len)]), 1, instance).step(there), Some(Ok(())));
    }
    while here.progress() {}
    assert_eq!((first.step(here), second.step(here)), (Some(Ok(())), Some(Ok(()))));
    assert_eq!((first.reactor.got, second.reactor.got), (vec![(0, 5)], vec![(0, 6)]));
}

#[test]
fn messages_that_arrive_before_their_instance_starts_are_delivered_later() {
    let World { endpoints: [here, there], .. } = &mut World::new();
    let mut sender = sending(0, &[(0, 5), (1, 3000)]);
    sender.sends.iter_mut().for_each(|transmit| transmit.synchronous = true);
    let mut sender = ReactorTask::new(sender, 1, 5);
    assert!(sender.step(there).is_none());
    while here.progress() | there.progress() {}
    assert!(sender.step(there).is_none() && sender.reactor.acked.is_empty(), "nothing is acknowledged yet");
    let mut receiver = ReactorTask::new(expecting(2, &[1]), 1, 5);
    assert!(receiver.step(here).is_none(), "the long one needs a rendezvous");
    while here.progress() | there.progress() {}
    assert_eq!((receiver.step(here), sender.step(there)), (Some(Ok(())), Some(Ok(()))));
    assert_eq!((receiver.reactor.got, sender.reactor.acked), (vec![(0, 5), (1, 3000)], vec![(0, 0), (0, 1)]));
}

#[test]
fn an_error_of_the_reactor_ends_both_sides() {
    let receiver = Script { refuses: Some(7), ..expecting(2, &[1]) };
    let [(receiver, _), (sender, _)] = World::new().run([receiver, sending(0, &[(0, 7), (1, 5000), (2, 5000)])]);
    assert_eq!(receiver, Err(Error::LengthMismatch { got: 7, expected: 0 }));
    assert_eq!(sender, Ok(()), "its messages were accepted");
}

#[test]
fn ranks_that_wait_for_an_aborted_one_are_notified() {
    let refusing = Script { refuses: Some(7), ..expecting(2, &[1]) };
    let waiting = Script { sends: sending(0, &[(0, 7)]).sends, ..expecting(1, &[0]) };
    let [(refusing, _), (waiting, _)] = World::new().run([refusing, waiting]);
    assert_eq!(refusing, Err(Error::LengthMismatch { got: 7, expected: 0 }));
    assert_eq!(waiting, Err(Error::Aborted { rank: 0 }));
}

#[test]
fn a_lost_peer_ends_the_task() {
    let mut world = World::new();
    let running = ReactorTask::new(expecting(1, &[1]), 1, 5);
    let endpoint = &mut world.endpoints[0];
    let id = endpoint.spawn(Rc::new(RefCell::new(running)), None);
    assert!(endpoint.test(id).is_none());
    world.wire.borrow_mut().lost = true;
    let result = (0..100).find_map(|_| endpoint.test(id)).expect("it ends");
    assert_eq!(result.err(), Some(Error::PeerLost { rank: 1 }));
}
