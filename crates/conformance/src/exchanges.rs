//! Exchanges in which nobody knows who will send to them, by every protocol.
//!
//! What each rank sends follows from the number of a round, so every rank can work out what must come to it: from whom, in
//! which order, and every element of it.

mod at_once;
mod handled;
mod kept_apart;
mod patterns;
mod refused;
mod rounds;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use treepie::{Comm, Error, Pod, Rank, Received, Result, SparseExchange};

use crate::check::{Failure, Outcome, check, check_eq};
use crate::payload::{bytes, seed};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("exchanges/protocols-that-there-are", 1, there_are).of_world(),
    Case::new("exchanges/any-number-of-neighbours", 1, patterns::neighbours),
    Case::new("exchanges/any-number-of-neighbours-in-the-world", 1, patterns::neighbours).of_world(),
    Case::new("exchanges/several-messages-to-one-rank", 1, patterns::several),
    Case::new("exchanges/several-messages-to-one-rank-in-the-world", 1, patterns::several).of_world(),
    Case::new("exchanges/one-sends-or-receives-everything", 1, patterns::skewed),
    Case::new("exchanges/nothing-oneself-and-empty-messages", 1, patterns::nothing),
    Case::new("exchanges/very-large-messages-among-short-ones", 1, patterns::large).of_world(),
    Case::new("exchanges/all-kinds-of-elements", 1, patterns::elements),
    Case::new("exchanges/a-thousand-back-to-back", 1, rounds::back_to_back),
    Case::new("exchanges/a-thousand-back-to-back-in-the-world", 1, rounds::back_to_back).of_world(),
    Case::new("exchanges/another-protocol-each-time", 1, rounds::another_each_time).of_world(),
    Case::new("exchanges/in-the-world-and-on-a-dup-by-turns", 1, rounds::world_and_dup).of_world(),
    Case::new("exchanges/two-communicators-at-once", 1, at_once::two_communicators),
    Case::new("exchanges/many-at-once-waited-for-in-any-order", 1, at_once::many),
    Case::new("exchanges/beside-collectives-and-other-exchanges", 1, at_once::beside_others),
    Case::new("exchanges/beside-others-in-the-world", 1, at_once::beside_others).of_world(),
    Case::new("exchanges/asked-until-they-are-done", 1, at_once::asked),
    Case::new("exchanges/messages-of-the-program-are-kept-apart", 1, kept_apart::from_messages),
    Case::new("exchanges/messages-in-the-world-are-kept-apart", 1, kept_apart::from_messages).of_world(),
    Case::new("exchanges/receives-of-anything-get-nothing-of-them", 1, kept_apart::from_wildcards),
    Case::new("exchanges/messages-handled-as-they-come", 1, handled::once_each).of_world(),
    Case::new("exchanges/whoever-handles-may-talk-meanwhile", 1, handled::talking),
    Case::new("exchanges/a-handler-that-panics", 1, handled::panics),
    Case::new("exchanges/a-handler-that-panics-in-the-world", 1, handled::panics).of_world(),
    Case::new("exchanges/neighbourhoods-that-stay", 1, handled::pattern),
    Case::new("exchanges/neighbourhoods-refuse-other-ranks", 1, handled::pattern_refuses),
    Case::new("exchanges/a-destination-that-does-not-exist", 1, refused::destination),
    Case::new("exchanges/a-destination-that-does-not-exist-in-the-world", 1, refused::destination).of_world(),
    Case::new("exchanges/a-destination-that-does-not-exist-begun", 1, refused::destination_begun),
    Case::new("exchanges/refused-again-and-again-in-the-world", 1, refused::again_and_again).of_world(),
    Case::new("exchanges/refused-by-another-protocol-each-time-in-the-world", 1, refused::by_turns).of_world(),
    Case::new("exchanges/one-gives-up-long-before-the-others", 2, refused::long_before).of_world(),
    Case::new("exchanges/ranks-by-different-protocols-are-told", 2, refused::different).of_world(),
    Case::new("exchanges/ranks-by-different-protocols-are-told-on-a-dup", 2, refused::different),
    Case::new("exchanges/elements-of-another-size", 1, refused::elements),
    Case::new("exchanges/elements-of-another-size-in-the-world", 1, refused::elements).of_world(),
    Case::new("exchanges/names-of-no-protocol", 1, refused::names),
];

const IDS: [&str; 8] = [
    "exchange/auto",
    "exchange/pex",
    "exchange/pcx",
    "exchange/rsx",
    "exchange/nbx",
    BEHIND,
    "exchange/nbx:condition=2",
    "exchange/crystal",
];

const AUTO: &str = "exchange/auto";

/// The one that needs more than messages, and cannot go on beside its caller.
const BEHIND: &str = "exchange/nbx:condition=1";

/// Calls `body` for each protocol that there is on this communicator, with a handle that uses it.
fn each(comm: &Comm, mut body: impl FnMut(&Comm) -> Outcome) -> Outcome {
    for (id, using) in handles(comm)? {
        body(&using).map_err(|failure| failure.during(id))?;
    }
    Ok(())
}

fn handles(comm: &Comm) -> Outcome<Vec<(&'static str, Comm)>> {
    let mut handles = Vec::new();
    for id in IDS {
        let using = comm.using(id)?;
        match using.exchange(NOTHING) {
            Ok(received) => {
                check_eq!(received, Vec::new(), "what came where nobody sent anything by {id}");
                handles.push((id, using));
            }
            Err(Error::Algorithm(text)) if id == BEHIND => {
                check!(text.contains(id) && text.contains("barrier"), "a refusal that does not say why: {text}");
            }
            Err(error) => return Err(Failure::from(error).during(id)),
        }
    }
    Ok(handles)
}

/// The same, for those that can go on beside their caller.
fn each_begun(comm: &Comm, mut body: impl FnMut(&Comm) -> Outcome) -> Outcome {
    for id in IDS.into_iter().filter(|id| *id != BEHIND) {
        body(&comm.using(id)?).map_err(|failure| failure.during(id))?;
    }
    Ok(())
}

const NOTHING: [(Rank, Vec<u8>); 0] = [];

/// In the world, engines with memory that all ranks share have all protocols, and others all but one.
fn there_are(world: &Comm) -> Outcome {
    // The engine's barrier is of all ranks of the world.
    let shares = ["threads", "shm"].contains(&world.engine()) && world.representation() == "all ranks";
    let found: Vec<&str> = handles(world)?.into_iter().map(|(id, _)| id).collect();
    let want: Vec<&str> = IDS.into_iter().filter(|id| shares || *id != BEHIND).collect();
    check_eq!(found, want, "protocols on {}", world.engine());
    Ok(())
}

/// What a rank sends: to whom, and how many elements.
type Plan = Vec<(Rank, usize)>;

/// A seeded source of numbers, the same for all ranks that ask for the same sender and round.
struct Dice(Xoshiro256PlusPlus);

impl Dice {
    fn new(sender: Rank, round: usize) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed(sender, round, 0xd5de)))
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.0.next_u64() % limit as u64) as usize
    }
}

/// A message to each of `count` ranks, oneself perhaps among them, in no order.
fn subset(sender: Rank, round: usize, size: usize, count: usize) -> Plan {
    let mut dice = Dice::new(sender, round);
    let mut ranks: Vec<Rank> = (0..size).collect();
    for i in 0..count {
        let other = i + dice.below(size - i);
        ranks.swap(i, other);
    }
    ranks.truncate(count);
    ranks.into_iter().map(|to| (to, length(&mut dice))).collect()
}

/// Any messages to anybody.
fn any(sender: Rank, round: usize, size: usize, most: usize) -> Plan {
    let mut dice = Dice::new(sender, round);
    (0..dice.below(most + 1)).map(|_| (dice.below(size), length(&mut dice))).collect()
}

/// Mostly short; some are longer than what goes in one piece.
fn length(dice: &mut Dice) -> usize {
    match dice.below(20) {
        0 => 0,
        1 => 1000 + dice.below(30_000),
        _ => dice.below(100),
    }
}

/// What a rank sends in a round.
fn messages<T>(plan: &Plan, from: Rank, round: usize, make: fn(u64, usize) -> Vec<T>) -> Vec<(Rank, Vec<T>)> {
    let numbered = plan.iter().enumerate();
    numbered.map(|(number, (to, len))| (*to, make(seed(from, number, round), *len))).collect()
}

/// That a rank has got what all have sent to it, in the order of sources and of one source in that of its messages.
fn check_received<T: Pod + PartialEq>(
    got: &Received<T>,
    me: Rank,
    round: usize,
    plan_of: &dyn Fn(Rank) -> Plan,
    size: usize,
    make: fn(u64, usize) -> Vec<T>,
) -> Outcome {
    let mut got = got.iter();
    for from in 0..size {
        for (number, (to, len)) in plan_of(from).into_iter().enumerate() {
            if to != me {
                continue;
            }
            let Some((source, data)) = got.next() else {
                return Err(Failure::new(format!("round {round}: message {number} of rank {from} did not come")));
            };
            check_eq!((*source, data.len()), (from, len), "source and length of message {number} of round {round}");
            let same = *data == make(seed(from, number, round), len);
            check!(same, "message {number} of rank {from} in round {round}, of {len} elements, has other data");
        }
    }
    check_eq!(
        got.map(|(from, data)| (*from, data.len())).collect::<Vec<_>>(),
        [],
        "more than was sent in round {round}"
    );
    Ok(())
}

/// One exchange of bytes as planned, and what came of it.
fn exchange(comm: &Comm, round: usize, plan_of: &dyn Fn(Rank) -> Plan) -> Outcome {
    exchange_of(comm, round, plan_of, bytes)
}

fn exchange_of<T: Pod + PartialEq>(
    comm: &Comm,
    round: usize,
    plan_of: &dyn Fn(Rank) -> Plan,
    make: fn(u64, usize) -> Vec<T>,
) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    let got = comm.exchange(messages(&plan_of(me), me, round, make))?;
    check_received(&got, me, round, plan_of, size, make)
}

/// An exchange that goes on.
struct Begun {
    request: treepie::Request<'static, Received<u8>>,
    round: usize,
}

impl Begun {
    /// Sends at most so many messages.
    fn new(comm: &Comm, round: usize, most: usize) -> Result<Self> {
        let (me, size) = (comm.rank(), comm.size());
        let request = comm.iexchange(messages(&any(me, round, size, most), me, round, bytes))?;
        Ok(Self { request, round })
    }

    fn end(self, comm: &Comm, most: usize) -> Outcome {
        let (me, size, round) = (comm.rank(), comm.size(), self.round);
        check_received(&self.request.wait()?, me, round, &|from| any(from, round, size, most), size, bytes)
    }
}

/// So many rounds, or fewer where ranks share cores and messages are dear; more in long runs.
fn rounds(comm: &Comm, many: usize) -> usize {
    let dear = if comm.engine() == "mpi" { 4 } else { 1 };
    let rounds = many * 8 / (comm.size() * dear).max(8);
    if std::env::var_os("TREEPIE_LONG").is_some() { many.max(8 * rounds) } else { rounds.max(many / 16).max(1) }
}

/// The first few of them where ranks share cores and messages are dear; all in long runs.
fn some_of<T>(comm: &Comm, all: Vec<T>) -> Vec<T> {
    let is_dear = comm.size() > 8 || comm.engine() == "mpi" && comm.size() > 3;
    let is_short = std::env::var_os("TREEPIE_LONG").is_none();
    let most = if is_dear && is_short { all.len().div_ceil(3) } else { all.len() };
    all.into_iter().take(most).collect()
}

/// That all ranks are in step: exchanges by this and by other protocols, and barriers of all kinds.
fn works(comm: &Comm, round: usize) -> Outcome {
    let size = comm.size();
    let plan = |from| any(from, round, size, 4);
    comm.barrier()?;
    for again in 0..3 {
        exchange(comm, round + again, &|from| any(from, round + again, size, 4))?;
    }
    comm.ibarrier()?.wait()?;
    for id in ["exchange/nbx", "exchange/rsx"] {
        exchange(&comm.using(id)?, round, &plan).map_err(|failure| failure.during(format!("{id} afterwards")))?;
    }
    comm.barrier()?;
    exchange(comm, round, &plan)
}
