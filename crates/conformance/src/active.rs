//! Active messages: everything that is sent in an epoch has been handled once when it is over, whatever way it went.
//!
//! Who sends what follows from a seed. Each rank keeps a [`Ledger`] of what it sends to whom; the sums of all ledgers say what
//! must have come.

mod at_once;
mod configurations;
mod deep;
mod epochs;
mod floods;
mod forms;
mod refused;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use treepie::{Comm, Rank, Sum};

use crate::check::{Outcome, check_eq};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("active/every-configuration", 1, configurations::on_a_dup),
    Case::new("active/every-configuration-in-the-world", 1, configurations::in_the_world).of_world(),
    Case::new("active/very-many-messages-in-the-world", 1, configurations::very_many).of_world(),
    Case::new("active/messages-of-any-size", 1, forms::sizes),
    Case::new("active/parcels-of-any-length", 1, forms::parcels).of_world(),
    Case::new("active/questions-with-notes", 1, forms::calls),
    Case::new("active/closures-that-wait-for-answers", 1, forms::asks),
    Case::new("active/closures-that-are-spawned", 1, forms::spawns).of_world(),
    Case::new("active/chains-of-a-million-handlers", 1, deep::chains).of_world(),
    Case::new("active/trees-of-handlers", 1, deep::trees),
    Case::new("active/trees-of-handlers-in-the-world", 1, deep::trees).of_world(),
    Case::new("active/rounds-of-handlers", 1, deep::rounds),
    Case::new("active/rounds-of-handlers-in-the-world", 1, deep::rounds).of_world(),
    Case::new("active/rounds-beside-messages-without-any", 1, deep::mixed_styles).of_world(),
    Case::new("active/everybody-floods-one", 1, floods::one).of_world(),
    Case::new("active/bodies-are-slowed-down", 3, floods::slowed),
    Case::new("active/handlers-that-flood-each-other", 1, floods::handlers),
    Case::new("active/epochs-back-to-back", 1, epochs::back_to_back),
    Case::new("active/epochs-back-to-back-in-the-world", 1, epochs::back_to_back).of_world(),
    Case::new("active/bodies-that-let-the-runtime-get-on", 1, epochs::one_shot).of_world(),
    Case::new("active/epochs-between-other-operations", 1, epochs::between_others).of_world(),
    Case::new("active/two-runtimes-on-two-halves", 1, at_once::halves),
    Case::new("active/an-epoch-in-the-body-of-another", 1, at_once::nested),
    Case::new("active/an-epoch-in-the-body-of-another-in-the-world", 1, at_once::nested).of_world(),
    Case::new("active/two-runtimes-on-one-communicator", 1, at_once::by_turns).of_world(),
    Case::new("active/communicators-with-shared-tables", 1, at_once::shared_tables),
    Case::new("active/types-that-differ-are-refused", 1, refused::types),
    Case::new("active/registrations-that-cannot-be", 1, refused::registrations),
    Case::new("active/a-destination-that-does-not-exist", 1, refused::destination),
    Case::new("active/a-destination-that-does-not-exist-in-the-world", 1, refused::destination).of_world(),
    Case::new("active/bodies-that-fail", 1, refused::body).of_world(),
    Case::new("active/handlers-that-panic", 1, refused::panics),
    Case::new("active/handlers-that-panic-in-the-world", 1, refused::panics).of_world(),
];

/// What a rank has got, or must have got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    count: u64,
    sum: u64,
}

impl Tally {
    fn add(&mut self, value: u64) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(value);
    }
}

/// What one rank has sent, to each rank.
struct Ledger {
    to: Vec<Tally>,
}

impl Ledger {
    fn new(comm: &Comm) -> Self {
        Self { to: vec![Tally::default(); comm.size()] }
    }

    fn sent(&mut self, to: Rank, value: u64) {
        self.to[to].add(value);
    }

    /// What all have sent to this rank.
    fn due(&self, comm: &Comm) -> Outcome<Tally> {
        let words: Vec<u64> = self.to.iter().flat_map(|tally| [tally.count, tally.sum]).collect();
        let all = comm.all_reduce(&words, Sum)?;
        Ok(Tally { count: all[2 * comm.rank()], sum: all[2 * comm.rank() + 1] })
    }

    /// That exactly this has come.
    #[track_caller]
    fn check(&self, comm: &Comm, got: Tally, what: &str) -> Outcome {
        check_eq!(got, self.due(comm)?, "{what}");
        Ok(())
    }
}

/// What a rank draws in a round.
fn random(rank: Rank, round: usize) -> impl FnMut(usize) -> usize {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(round as u64 * 1_000_003 + rank as u64);
    move |limit| (random.next_u64() % limit as u64) as usize
}

/// Whether runs that take minutes are wanted.
fn is_long() -> bool {
    std::env::var_os("TREEPIE_LONG").is_some()
}

/// So many, or fewer where each costs much more: by messages of an MPI, simulated, or where ranks wait for cores.
fn some(comm: &Comm, many: usize) -> usize {
    let is_slow = !["threads", "shm"].contains(&comm.engine()) || comm.size() > 4;
    if is_slow && !is_long() { many.div_ceil(10) } else { many }
}

/// A routing of every kind. Where ranks of an MPI wait for cores, some of them, and with each number of ranks others.
fn some_routings(comm: &Comm) -> Vec<String> {
    let mut some = routings(comm.size()).to_vec();
    if comm.engine() == "mpi" && comm.size() > 2 && !is_long() {
        some.rotate_left(comm.size() % 5);
        some.truncate(2);
    }
    some
}

/// A routing of every kind, for so many ranks.
fn routings(ranks: usize) -> [String; 5] {
    let clusters = match ranks {
        1 => "1".to_owned(),
        2 => "1+1".to_owned(),
        _ => format!("1+{}+{}", (ranks - 1) / 2, ranks - 1 - (ranks - 1) / 2),
    };
    ["direct".to_owned(), "rook".to_owned(), format!("grid:{}x2x2", ranks.div_ceil(4)), "hypercube".to_owned()]
        .into_iter()
        .chain([format!("clusters:{clusters}")])
        .collect::<Vec<_>>()
        .try_into()
        .expect("there are five")
}
