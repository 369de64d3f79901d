//! Detectors alone, over ranks that are nothing but counters and messages that come in any order.

use treepie_sim::noise::Random;

use super::*;

/// Which detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counting,
    /// A mistake: without the second wave.
    CountingOnce,
    Synchronous,
    /// A mistake: ranks do not wait for answers.
    Unanswered,
    Barrier,
}

impl Kind {
    fn begin(self, rank: u32, ranks: u32) -> Detection {
        match self {
            Kind::Counting | Kind::CountingOnce => {
                let mut counting = Counting::new(rank, ranks);
                counting.believes_one_wave = self == Kind::CountingOnce;
                Detection::Counting(counting)
            }
            Kind::Synchronous | Kind::Unanswered => Detection::NbxLike(NbxLike::new(rank, ranks, false)),
            Kind::Barrier => Detection::NbxLike(NbxLike::new(rank, ranks, true)),
        }
    }
}

/// A message of the program: how deep those of its handler are nested, and whether it is kept for the next round.
#[derive(Clone, Copy, Debug)]
struct Message {
    depth: u64,
    kept: bool,
    round: u64,
}

#[derive(Debug)]
enum Flying {
    Data {
        from: usize,
        message: Message,
        /// To how many barriers its sender had come.
        arrived: u64,
    },
    /// It has been taken.
    Answer,
    Wave {
        tag: u32,
        words: Vec<u64>,
    },
}

struct Rank {
    detection: Detection,
    /// Messages that its body has still to send.
    body: u64,
    report: Report,
    unanswered: u64,
    kept: Vec<Message>,
    /// Of a round that has not begun here.
    early: Vec<Message>,
    round: u64,
    /// Barriers to which it came, and which are over for it.
    arrived: u64,
    gathered: u64,
    waves: u64,
    over: Option<u64>,
}

struct World {
    kind: Kind,
    random: Random,
    ranks: Vec<Rank>,
    /// By receiver, in no order.
    flying: Vec<Vec<Flying>>,
    /// Bits and number of ranks that came to each barrier.
    barriers: Vec<(u64, usize)>,
    /// How many messages there may still be.
    budget: u64,
    sum: u64,
    /// The rounds that are over for somebody.
    rounds: u64,
    /// One of so many messages is kept for the next round.
    kept: u64,
    /// Waves or barriers that had begun when nothing was left to do.
    before_the_end: Option<u64>,
}

impl World {
    fn draw(kind: Kind, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let ranks = 1 + random.below(12) as u32;
        let budget = [0, 10, 10, 100][random.below(4) as usize];
        let mut rank = |rank: u32| Rank {
            detection: kind.begin(rank, ranks),
            body: random.below(3),
            report: Report::default(),
            unanswered: 0,
            kept: Vec::new(),
            early: Vec::new(),
            round: 0,
            arrived: 0,
            gathered: 0,
            waves: 0,
            over: None,
        };
        let all: Vec<Rank> = (0..ranks).map(&mut rank).collect();
        let flying = all.iter().map(|_| Vec::new()).collect();
        let kept = [2, 20][random.below(2) as usize];
        let (barriers, before_the_end) = (Vec::new(), None);
        Self { kind, random, ranks: all, flying, barriers, budget, sum: 0, rounds: 0, kept, before_the_end }
    }

    /// Whether no message of the program is on its way, or will be sent in this round.
    fn is_quiet(&self) -> bool {
        let flies = |flying: &Flying| matches!(flying, Flying::Data { .. });
        self.ranks.iter().all(|rank| rank.body == 0 && rank.early.is_empty())
            && !self.flying.iter().flatten().any(flies)
    }

    fn send(&mut self, from: usize, depth: u64) {
        if self.budget == 0 {
            return;
        }
        self.budget -= 1;
        let to = self.random.below(self.ranks.len() as u64) as usize;
        let kept = self.random.below(self.kept) == 0;
        let rank = &mut self.ranks[from];
        let message = Message { depth, kept, round: rank.round };
        rank.report.sent += 1;
        rank.unanswered += 1;
        let arrived = rank.arrived;
        self.flying[to].push(Flying::Data { from, message, arrived });
    }

    fn handle(&mut self, at: usize, message: Message) {
        self.ranks[at].report.sum += 1;
        self.sum += 1;
        if message.depth > 0 {
            let count = [0, 1, 3][self.random.below(3) as usize];
            (0..count).for_each(|_| self.send(at, message.depth - 1));
        }
    }

    fn take(&mut self, at: usize, message: Message) {
        let rank = &mut self.ranks[at];
        if message.round != rank.round {
            return rank.early.push(message);
        }
        rank.report.received += 1;
        if message.kept {
            rank.kept.push(message);
            rank.report.kept += 1;
        } else {
            self.handle(at, message);
        }
    }

    /// Something that was sent to a rank comes, if there is anything.
    fn come(&mut self, at: usize) {
        if self.flying[at].is_empty() {
            return;
        }
        let place = self.random.below(self.flying[at].len() as u64) as usize;
        match self.flying[at].swap_remove(place) {
            Flying::Data { from, message, .. } => {
                self.flying[from].push(Flying::Answer);
                self.take(at, message);
            }
            Flying::Answer => self.ranks[at].unanswered -= 1,
            Flying::Wave { tag, words } => self.ranks[at].detection.on_message(tag, &words),
        }
    }

    /// All have come to the barrier, and all that they had sent before is here.
    fn gather(&mut self, at: usize) {
        let next = self.ranks[at].gathered;
        let Some((bits, came)) = self.barriers.get(next as usize).copied() else { return };
        let is_behind = |flying: &Flying| !matches!(flying, Flying::Data { arrived, .. } if *arrived <= next);
        if came == self.ranks.len() && self.flying[at].iter().all(is_behind) {
            self.ranks[at].gathered += 1;
            let Detection::NbxLike(nbx_like) = &mut self.ranks[at].detection else { panic!("who came there?") };
            nbx_like.on_gathered(bits);
        }
    }

    fn arrive(&mut self, at: usize) {
        let Detection::NbxLike(nbx_like) = &mut self.ranks[at].detection else { return };
        let Some(bits) = nbx_like.poll_arrive() else { return };
        let number = self.ranks[at].arrived as usize;
        self.ranks[at].arrived += 1;
        self.barriers.resize(self.barriers.len().max(number + 1), (0, 0));
        self.barriers[number].0 |= bits;
        self.barriers[number].1 += 1;
    }

    /// One rank does one thing.
    fn step(&mut self) -> Result<(), String> {
        let at = self.random.below(self.ranks.len() as u64) as usize;
        if self.ranks[at].over.is_some() {
            return Ok(());
        }
        match self.random.below(4) {
            0 if self.ranks[at].body > 0 => {
                self.ranks[at].body -= 1;
                self.send(at, 4);
            }
            0 | 1 => self.come(at),
            2 => self.gather(at),
            _ => {
                let rank = &mut self.ranks[at];
                let waits = self.kind == Kind::Synchronous && rank.unanswered > 0;
                if rank.body == 0 && !waits {
                    rank.detection.report(rank.report);
                }
            }
        }
        while let Some((to, tag, words)) = self.ranks[at].detection.poll_transmit() {
            self.ranks[at].waves += 1;
            self.flying[to as usize].push(Flying::Wave { tag, words });
        }
        self.arrive(at);
        self.hear(at)
    }

    /// Looks whether the detector has something to say, and whether it is right.
    fn hear(&mut self, at: usize) -> Result<(), String> {
        match self.ranks[at].detection.poll_verdict() {
            None => {}
            Some(Verdict::Over(sum)) => {
                let kept: usize = self.ranks.iter().map(|rank| rank.kept.len()).sum();
                if !self.is_quiet() || kept > 0 || sum != self.sum {
                    return Err(format!("over at {at}, {kept} kept, the sum is {sum} and not {}", self.sum));
                }
                self.ranks[at].over = Some(sum);
            }
            Some(Verdict::NextRound) => {
                // Who hears it later may find others in the next round.
                if self.rounds == self.ranks[at].round && !self.is_quiet() {
                    return Err(format!("the next round begins at {at}"));
                }
                let rank = &mut self.ranks[at];
                rank.round += 1;
                rank.report.kept = 0;
                self.rounds = self.rounds.max(rank.round);
                let (kept, early) = (std::mem::take(&mut rank.kept), std::mem::take(&mut rank.early));
                kept.into_iter().for_each(|message| self.handle(at, message));
                early.into_iter().for_each(|message| self.take(at, message));
            }
        }
        Ok(())
    }

    fn run(mut self) -> Result<Self, String> {
        let nothing = self.budget == 0 || self.ranks.iter().all(|rank| rank.body == 0);
        for _ in 0..1_000_000 {
            self.step()?;
            if self.before_the_end.is_none() && self.is_quiet() && self.ranks.iter().all(|rank| rank.kept.is_empty()) {
                self.before_the_end = Some(self.begun());
            }
            if self.ranks.iter().all(|rank| rank.over.is_some()) {
                return self.check_costs(nothing).map(|()| self);
            }
        }
        Err("it does not end".to_owned())
    }

    /// Messages of a rank in a wave.
    fn each(&self) -> u64 {
        u64::from((self.ranks.len() as u32).next_power_of_two().ilog2())
    }

    /// Waves or barriers that somebody has begun.
    fn begun(&self) -> u64 {
        let begun = |rank: &Rank| match self.kind {
            Kind::Barrier => rank.arrived,
            _ => rank.waves.div_ceil(self.each().max(1)),
        };
        self.ranks.iter().map(begun).max().unwrap_or(0)
    }

    /// A wave costs each rank ceil(log2 P) messages; where nothing was sent there is one, or one barrier. Of those that begin
    /// when nothing is left to do, the first shows what is there and the second that it stays so.
    fn check_costs(&self, nothing: bool) -> Result<(), String> {
        let each = self.each();
        let waves: Vec<u64> = self.ranks.iter().map(|rank| rank.waves).collect();
        let is_right = |count: u64| match (self.kind, nothing) {
            (Kind::Barrier, _) => count == if self.sum > 0 { each } else { 0 },
            (_, true) => count == each,
            (_, false) => each == 0 || count.is_multiple_of(each),
        };
        let is_right = is_right(waves[0]) && waves.iter().all(|count| *count == waves[0]);
        let begun = self.begun();
        let most = if nothing { 1 } else { self.before_the_end.unwrap_or(0) + 2 };
        if is_right && begun <= most {
            return Ok(());
        }
        Err(format!("messages of waves: {waves:?}; {begun} begun, and not {most}"))
    }
}

const SEEDS: u64 = 3000;

fn first_wrong(kind: Kind) -> Option<(u64, String)> {
    (0..SEEDS).find_map(|seed| World::draw(kind, seed).run().err().map(|wrong| (seed, wrong)))
}

#[test]
fn detectors_never_say_that_it_is_over_too_early_and_always_say_it() {
    for kind in [Kind::Counting, Kind::Synchronous, Kind::Barrier] {
        assert_eq!(first_wrong(kind), None, "{kind:?}");
    }
}

#[test]
fn detectors_that_are_wrong_are_found() {
    for kind in [Kind::CountingOnce, Kind::Unanswered] {
        let found = first_wrong(kind);
        println!("{kind:?}: {found:?}");
        assert!(found.is_some(), "{kind:?}");
    }
}

#[test]
fn some_worlds_have_rounds_and_many_waves() {
    let worlds: Vec<World> = (0..300).map(|seed| World::draw(Kind::Counting, seed).run().ok().unwrap()).collect();
    assert!(worlds.iter().filter(|world| world.rounds > 1).count() > 30);
    assert!(worlds.iter().filter(|world| world.ranks[0].waves > 20).count() > 30);
    assert!(worlds.iter().filter(|world| world.sum == 0).count() > 30);
}
