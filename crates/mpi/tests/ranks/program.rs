//! The programs of the ranks: they drive the engine by hand, as the endpoint does, and check every byte and the order.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use treepie_base::{Bytes, Span, hang_limit, hang_message};
use treepie_fabric::{AbortReason, Fabric, FabricEvent, RecordHeader, SharedSegment, SlotClass};

/// Polling for this phase queues everything that arrives.
const NO_PHASE: u32 = 0;

/// Kinds of records.
const DATA: u32 = 1;
const RTS: u32 = 2;
const CTS: u32 = 3;

pub(crate) fn run(name: &str) -> ExitCode {
    switch_segment_off();
    let fabric = match treepie_mpi::start() {
        Ok(fabric) => fabric,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(3);
        }
    };
    let mut rank = Rank::new(fabric);
    match name {
        "exchange" => {
            rank.records(1, 5_000);
            rank.flood(2, 2_000);
            rank.transfers_of_all_lengths(3);
            rank.busy_sender(4);
        }
        "segment" => {
            let all = (0..rank.size).collect();
            rank.exchange_in_segment(all, &[]);
        }
        "segment-of-two-hosts" => {
            let same = (rank.me % 2..rank.size).step_by(2).collect();
            let groups: Vec<u32> = (0..rank.size).map(|rank| rank % 2).collect();
            rank.exchange_in_segment(same, &groups);
        }
        "no-segment" => {
            assert!(rank.fabric.shared_segment().is_none() && rank.fabric.segment_groups().is_empty());
        }
        "again" => assert!(matches!(treepie_mpi::start(), Err(treepie_mpi::SetupError::AlreadyStarted))),
        "fail" if rank.me == 1 => rank.fabric.announce_failure(None),
        "vanish" if rank.me == 1 => return ExitCode::SUCCESS,
        "forget" if rank.me == 1 => {
            std::mem::forget(rank);
            return ExitCode::SUCCESS;
        }
        "exit" if rank.me == 1 => std::process::exit(3),
        "die" if rank.me == 1 => {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
                .expect("a process may kill itself")
        }
        _ => {}
    }
    rank.leave();
    println!("rank {} of {} is done", rank.me, rank.size);
    ExitCode::SUCCESS
}

/// Switches the segment off on the rank that a variable names. The launchers' variables have the rank before MPI does.
fn switch_segment_off() {
    let variable = |name| std::env::var(name).ok();
    let rank = variable("OMPI_COMM_WORLD_RANK").or_else(|| variable("PMI_RANK"));
    if rank.is_some() && variable("MPI_TEST_NO_SEGMENT_ON") == rank {
        // SAFETY: the process has one thread yet.
        unsafe { std::env::set_var("TREEPIE_SHARED_SEGMENT", "off") };
    }
}

/// An event, with its data copied.
enum Arrival {
    Record { from: u32, head: RecordHeader, body: Vec<u8> },
    Received { slot: u32, span: Span },
    Sent { slot: u32, span: Span },
}

struct Rank {
    fabric: Box<dyn Fabric>,
    me: u32,
    size: u32,
    /// Records of a later phase, from ranks that are ahead of this one.
    early: VecDeque<(u32, RecordHeader, Vec<u8>)>,
    idle: u32,
    deadline: Instant,
}

impl Rank {
    fn new(fabric: Box<dyn Fabric>) -> Self {
        let (me, size) = (fabric.rank(), fabric.size());
        assert_eq!((fabric.name(), fabric.max_body() >= 1024), ("mpi", true));
        Self { fabric, me, size, early: VecDeque::new(), idle: 0, deadline: Instant::now() + hang_limit() }
    }

    /// Rounds in slots of all classes, single copies where they are permitted, and the end of the segment.
    fn exchange_in_segment(&mut self, members: Vec<u32>, groups: &[u32]) {
        assert_eq!(self.fabric.segment_groups(), groups);
        let exposed: Vec<u8> = (0..100).map(|i| i ^ self.me as u8).collect();
        let mut copied = 0;
        for round in 0..200u64 {
            let class = [SlotClass::Page, SlotClass::Line, SlotClass::Large][round as usize % 3];
            let word = |rank: u32| u64::from(rank) << 32 | round;
            let (me, exposes) = (self.me, class == SlotClass::Page);
            self.wait_in_segment(|segment| {
                segment.try_write(class, 0, &word(me).to_ne_bytes()).then_some(())?;
                (!exposes || segment.try_expose(class, 16, &exposed)).then_some(())?;
                segment.try_publish(class, round).then_some(())
            });
            for (index, member) in (0..).zip(&members).filter(|(_, member)| **member != me) {
                assert_eq!(self.wait_in_segment(|segment| segment.published_tag(index)), round);
                let segment = self.fabric.shared_segment().expect("there was one");
                assert_eq!(segment.read(index, class, 0, 8), word(*member).to_ne_bytes());
                let mut got = [0; 10];
                if exposes && segment.read_exposed(index, class, 16, 90, &mut got) {
                    copied += 1;
                    assert!((90..).zip(got).all(|(i, byte): (u8, u8)| byte == i ^ *member as u8));
                }
            }
        }
        let segment = self.fabric.shared_segment().expect("there was one");
        assert_eq!((segment.members(), segment.members()[segment.index() as usize]), (&members[..], self.me));
        let (first, last) = (members[0], *members.last().expect("it has this one"));
        let why = AbortReason::AbortedBy(last);
        if self.me == last {
            segment.close(why);
        } else {
            // In a round that the last rank does not publish.
            self.wait_in_segment(|segment| segment.try_publish(SlotClass::Line, 0).then_some(()));
            let index = members.len() as u32 - 1;
            let closed = self.wait_in_segment(|segment| {
                assert_eq!((segment.published_tag(index), segment.awaited()), (None, Some(last)));
                segment.closed_reason()
            });
            assert_eq!(closed, why);
        }
        if self.me == first {
            println!("{copied} single copies by rank {first}");
        }
        // What is exposed must stay until all have read it: the end of a world waits for all.
        Box::leak(exposed.into_boxed_slice());
    }

    fn wait_in_segment<R>(&mut self, mut poll: impl FnMut(&mut dyn SharedSegment) -> Option<R>) -> R {
        loop {
            if let Some(found) = poll(self.fabric.shared_segment().expect("this rank has a segment")) {
                return found;
            }
            assert!(Instant::now() < self.deadline, "{}", hang_message("a round in the segment"));
            std::thread::yield_now();
        }
    }

    fn others(&self) -> impl Iterator<Item = u32> + use<> {
        let me = self.me;
        (0..self.size).filter(move |&rank| rank != me)
    }

    /// Signals the others without MPI.
    fn signal_out_of_band(&self, what: &str) {
        std::fs::write(side_channel_path(what), "").expect("a file beside MPI");
    }

    /// Waits, without MPI, for a signal.
    fn wait_out_of_band(&self, what: &str) {
        while !side_channel_path(what).exists() {
            assert!(Instant::now() < self.deadline, "rank {}: {}", self.me, hang_message(what));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The next event of a phase; pauses if there is none.
    fn next(&mut self, phase: u32) -> Option<Arrival> {
        assert!(Instant::now() < self.deadline, "rank {} waits too long in phase {phase}", self.me);
        if let Some(at) = self.early.iter().position(|(_, head, _)| head.context == phase) {
            let (from, head, body) = self.early.remove(at)?;
            return Some(Arrival::Record { from, head, body });
        }
        let arrival = match self.fabric.poll() {
            None => {
                self.fabric.idle(self.idle);
                self.idle += 1;
                return None;
            }
            Some(FabricEvent::Record { from, head, body }) => Arrival::Record { from, head, body: body.to_vec() },
            Some(FabricEvent::BulkReceived { slot, span, tell_sender: false }) => Arrival::Received { slot, span },
            Some(FabricEvent::BulkSent { slot, span }) => Arrival::Sent { slot, span },
            Some(other) => panic!("unexpected {other:?}"),
        };
        self.idle = 0;
        match arrival {
            Arrival::Record { from, head, body } if head.context != phase => {
                self.early.push_back((from, head, body));
                None
            }
            arrival => Some(arrival),
        }
    }

    /// Sends a record, retrying while the channel is full.
    fn send(&mut self, to: u32, head: RecordHeader, body: &[u8]) {
        while !self.fabric.try_send(to, head, body) {
            assert!(Instant::now() < self.deadline, "rank {} cannot send", self.me);
            std::thread::yield_now();
        }
    }

    /// All ranks send `count` records of all lengths to all others, and receive in between.
    fn records(&mut self, phase: u32, count: u32) {
        let mut sent = vec![0; self.size as usize];
        let mut expected = vec![0; self.size as usize];
        let others: Vec<u32> = self.others().collect();
        while others.iter().any(|&peer| sent[peer as usize] < count || expected[peer as usize] < count) {
            for &to in &others {
                let number = sent[to as usize];
                let head = RecordHeader { kind: DATA, context: phase, tag: number, slot: to };
                let body = body_of(self.me, to, number, self.fabric.max_body());
                if number < count && self.fabric.try_send(to, head, &body) {
                    sent[to as usize] += 1;
                }
            }
            while let Some(arrival) = self.next(phase) {
                self.check(arrival, &mut expected);
            }
        }
    }

    /// Rank 0 sends to ranks that do not poll until the channel is full, and continues while they do.
    fn flood(&mut self, phase: u32, count: u32) {
        if self.me != 0 {
            // Earlier sends of this rank may need it to poll, and the sender may still wait for that.
            while !side_channel_path(&format!("the beginning of phase {phase}")).exists() {
                assert!(self.next(NO_PHASE).is_none());
            }
            self.wait_out_of_band(&format!("the end of the room in phase {phase}"));
            let mut expected = 0;
            while expected < count {
                let Some(Arrival::Record { from: 0, head, body }) = self.next(phase) else { continue };
                assert_eq!((head.kind, head.tag, head.slot), (DATA, expected, self.me));
                assert!(body == long_body(self.me, expected, self.fabric.max_body()), "record {expected}");
                expected += 1;
            }
            return;
        }
        self.signal_out_of_band(&format!("the beginning of phase {phase}"));
        let mut refused = 0;
        for number in 0..count {
            for to in self.others() {
                let head = RecordHeader { kind: DATA, context: phase, tag: number, slot: to };
                let body = long_body(to, number, self.fabric.max_body());
                // It does not poll either: the channel itself has to progress.
                while !self.fabric.try_send(to, head, &body) {
                    if refused == 0 {
                        self.signal_out_of_band(&format!("the end of the room in phase {phase}"));
                    }
                    refused += 1;
                    assert!(Instant::now() < self.deadline, "the flood does not end");
                    std::thread::yield_now();
                }
            }
        }
        if refused == 0 {
            self.signal_out_of_band(&format!("the end of the room in phase {phase}"));
        }
        assert!(refused > 0 || self.size == 1, "everything went in");
    }

    fn check(&self, arrival: Arrival, expected: &mut [u32]) {
        let Arrival::Record { from, head, body } = arrival else { panic!("not a record") };
        let number = &mut expected[from as usize];
        assert_eq!((head.kind, head.tag, head.slot), (DATA, *number, self.me), "from {from}");
        assert!(body == body_of(from, self.me, *number, self.fabric.max_body()), "record {number} from {from}");
        *number += 1;
    }

    /// Each rank sends messages longer than any record to the next rank, and receives from the previous one. The fabric
    /// refuses messages that a record can carry: MPI would match them against all unexpected records.
    fn transfers_of_all_lengths(&mut self, phase: u32) {
        if self.size == 1 {
            return;
        }
        let longest = self.fabric.max_body();
        let lengths = [longest + 1, longest + 7, 65_536, 65_543, 300_001, 1 << 20, (64 << 20) + 5];
        let (to, from) = ((self.me + 1) % self.size, (self.me + self.size - 1) % self.size);
        let mut registered: Vec<Option<Span>> = lengths.iter().map(|&len| Some(memory(self.me, len))).collect();
        for (slot, &length) in lengths.iter().enumerate() {
            let head = RecordHeader { kind: RTS, context: phase, tag: 0, slot: slot as u32 };
            self.send(to, head, &(length as u64).to_ne_bytes());
        }
        let refused = self.fabric.bulk_recv(from, 0, 0, Bytes::zeroed(longest, 8).into());
        assert!(refused.is_err_and(|refused| refused.span.len() == longest));
        let (mut sent, mut received) = (0, 0);
        while sent < lengths.len() || received < lengths.len() {
            let Some(arrival) = self.next(phase) else { continue };
            match arrival {
                Arrival::Record { from: peer, head, body } if head.kind == RTS => {
                    assert_eq!(peer, from);
                    let length = u64::from_ne_bytes(body.try_into().unwrap()) as usize;
                    let span = Bytes::zeroed(length, 8).into();
                    let cts = self.fabric.bulk_recv(from, 0, head.slot, span).expect("tags enough");
                    let words: Vec<u8> = cts.expect("the sender sends").iter().flat_map(|w| w.to_ne_bytes()).collect();
                    self.send(from, RecordHeader { kind: CTS, ..head }, &words);
                }
                Arrival::Record { from: peer, head, body } if head.kind == CTS => {
                    assert_eq!(peer, to);
                    let mut words = body.chunks_exact(8).map(|w| u64::from_ne_bytes(w.try_into().unwrap()));
                    let cts = std::array::from_fn(|_| words.next().unwrap());
                    let span = registered[head.slot as usize].take().expect("one CTS for each");
                    self.fabric.bulk_send(to, head.slot, cts, span).expect("the CTS is the peer's");
                }
                Arrival::Record { head, .. } => panic!("unexpected {head:?}"),
                Arrival::Received { slot, span } => {
                    assert!(span.as_slice() == memory(from, lengths[slot as usize]).as_slice(), "bulk {slot}");
                    received += 1;
                }
                Arrival::Sent { slot, span } => {
                    assert_eq!(span.len(), lengths[slot as usize]);
                    sent += 1;
                }
            }
        }
    }

    /// The longest records arrive while their sender is busy elsewhere: until all receivers have signalled.
    fn busy_sender(&mut self, phase: u32) {
        const COUNT: u32 = 8;
        let head = RecordHeader { kind: DATA, context: phase, tag: 0, slot: 0 };
        if self.me == 0 {
            (1..self.size).for_each(|_| drop(self.wait(phase)));
            let body = vec![5; self.fabric.max_body()];
            for to in self.others() {
                self.send(to, head, b"go");
                (0..COUNT).for_each(|_| self.send(to, head, &body));
            }
            self.others()
                .for_each(|rank| self.wait_out_of_band(&format!("rank {rank} got the records of phase {phase}")));
        } else {
            self.send(0, head, b"ready");
            self.wait(phase);
            (0..COUNT).for_each(|_| drop(self.wait(phase)));
            self.signal_out_of_band(&format!("rank {} got the records of phase {phase}", self.me));
        }
    }

    fn wait(&mut self, phase: u32) -> Arrival {
        loop {
            if let Some(arrival) = self.next(phase) {
                return arrival;
            }
        }
    }

    fn leave(&mut self) {
        self.fabric.begin_finalize();
        while !self.fabric.is_finalized() {
            assert!(Instant::now() < self.deadline, "rank {} cannot leave", self.me);
            assert!(self.fabric.poll().is_none(), "a late event");
            self.fabric.idle(0);
        }
    }
}

/// The path of a signal file of the job.
fn side_channel_path(what: &str) -> std::path::PathBuf {
    let directory = std::env::var_os(crate::SIDE_CHANNEL).expect("the test names a directory");
    std::path::Path::new(&directory).join(what.replace(' ', "-"))
}

/// The body of a record: mostly short, sometimes of any length, and never the same twice.
fn body_of(from: u32, to: u32, number: u32, longest: usize) -> Vec<u8> {
    let seed = number.wrapping_mul(0x9e37_79b9) ^ (from << 8) ^ to;
    let mixed = (seed ^ (seed >> 15)).wrapping_mul(0x85eb_ca6b);
    let longest = if number.is_multiple_of(4) { longest + 1 } else { 40 };
    let length = if number % 1000 == 999 { 0 } else { mixed as usize % longest };
    (0..length).map(|at| (at as u32 ^ mixed ^ (mixed >> 16)) as u8).collect()
}

/// A body of which no transport can buffer many.
fn long_body(to: u32, number: u32, length: usize) -> Vec<u8> {
    let mut body = vec![to as u8; length];
    body[..4].copy_from_slice(&number.to_ne_bytes());
    body[length - 4..].copy_from_slice(&number.to_ne_bytes());
    body
}

fn memory(owner: u32, length: usize) -> Span {
    let byte = |at: usize| (at.wrapping_mul(31) ^ (at >> 13) ^ (owner as usize + length)) as u8;
    Bytes::from((0..length).map(byte).collect::<Vec<u8>>()).into()
}
