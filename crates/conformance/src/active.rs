//! Active messages: when an epoch ends, each message sent in it has been handled exactly once, whatever its route.
//!
//! A seed determines all messages. Each rank records in a [`Ledger`] what it sends to whom; an allreduce of the ledgers
//! gives what each rank must have received.

mod concurrent;
mod configurations;
mod deep;
mod epochs;
mod floods;
mod message_kinds;
mod owner_messages;
mod refused;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use treepie::{Comm, Rank, Sum};

use crate::check::{Outcome, check_eq};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("active/every-configuration", 1, configurations::on_a_dup),
    Case::new("active/every-configuration-in-the-world", 1, configurations::in_the_world).of_world(),
    Case::new("active/very-many-messages-in-the-world", 1, configurations::stress).of_world(),
    Case::new("active/messages-of-any-size", 1, message_kinds::sizes),
    Case::new("active/parcels-of-any-length", 1, message_kinds::parcels).of_world(),
    Case::new("active/calls-with-replies", 1, message_kinds::calls),
    Case::new("active/closures-that-wait-for-replies", 1, message_kinds::asks),
    Case::new("active/closures-that-are-spawned", 1, message_kinds::spawns).of_world(),
    Case::new("active/chains-of-a-million-handlers", 1, deep::chains).of_world(),
    Case::new("active/trees-of-handlers", 1, deep::trees),
    Case::new("active/trees-of-handlers-in-the-world", 1, deep::trees).of_world(),
    Case::new("active/rounds-of-handlers", 1, deep::rounds),
    Case::new("active/rounds-of-handlers-in-the-world", 1, deep::rounds).of_world(),
    Case::new("active/bsp-and-asynchronous-message-types", 1, deep::mixed_styles).of_world(),
    Case::new("active/all-ranks-flood-one", 1, floods::all_to_one).of_world(),
    Case::new("active/bodies-are-throttled", 3, floods::back_pressure),
    Case::new("active/handlers-that-flood-each-other", 1, floods::flooding_handlers),
    Case::new("active/epochs-back-to-back", 1, epochs::back_to_back),
    Case::new("active/epochs-back-to-back-in-the-world", 1, epochs::back_to_back).of_world(),
    Case::new("active/bodies-that-call-progress", 1, epochs::one_shot).of_world(),
    Case::new("active/epochs-between-other-operations", 1, epochs::between_others).of_world(),
    Case::new("active/two-runtimes-on-two-halves", 1, concurrent::halves),
    Case::new("active/an-epoch-in-the-body-of-another", 1, concurrent::nested),
    Case::new("active/an-epoch-in-the-body-of-another-in-the-world", 1, concurrent::nested).of_world(),
    Case::new("active/two-runtimes-on-one-communicator", 1, concurrent::alternating).of_world(),
    Case::new("active/communicators-with-shared-tables", 1, concurrent::shared_tables),
    Case::new("active/types-that-differ-are-refused", 1, refused::types),
    Case::new("active/invalid-registrations", 1, refused::registrations),
    Case::new("active/a-destination-that-does-not-exist", 1, refused::destination),
    Case::new("active/a-destination-that-does-not-exist-in-the-world", 1, refused::destination).of_world(),
    Case::new("active/bodies-that-fail", 1, refused::body).of_world(),
    Case::new("active/handlers-that-panic", 1, refused::panics),
    Case::new("active/handlers-that-panic-in-the-world", 1, refused::panics).of_world(),
    Case::new("active/one-type/a-histogram", 1, owner_messages::histogram),
    Case::new("active/one-type/a-histogram-in-the-world", 1, owner_messages::histogram).of_world(),
    Case::new("active/one-type/a-map-of-words", 1, owner_messages::word_count),
    Case::new("active/one-type/handlers-that-send", 1, owner_messages::handlers_that_send),
    Case::new("active/one-type/handlers-that-send-in-the-world", 1, owner_messages::handlers_that_send).of_world(),
    Case::new("active/one-type/several-epochs", 1, owner_messages::levels),
    Case::new("active/one-type/an-owner-that-does-not-exist", 1, owner_messages::missing_owner),
    Case::new("active/one-type/handlers-that-panic", 1, owner_messages::panics),
    Case::new("active/one-type/types-that-differ", 2, owner_messages::mismatch),
];

/// Messages that a rank has received or must receive: their number and the sum of their values.
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

/// Messages that this rank has sent, by destination.
struct Ledger {
    to: Vec<Tally>,
}

impl Ledger {
    fn new(comm: &Comm) -> Self {
        Self { to: vec![Tally::default(); comm.size()] }
    }

    fn record_sent(&mut self, to: Rank, value: u64) {
        self.to[to].add(value);
    }

    /// The tally of what all ranks have sent to this rank.
    fn expected(&self, comm: &Comm) -> Outcome<Tally> {
        let words: Vec<u64> = self.to.iter().flat_map(|tally| [tally.count, tally.sum]).collect();
        let all = comm.allreduce(&words, Sum)?;
        Ok(Tally { count: all[2 * comm.rank()], sum: all[2 * comm.rank() + 1] })
    }

    /// Checks that this rank received exactly what was sent to it.
    #[track_caller]
    fn check(&self, comm: &Comm, got: Tally, what: &str) -> Outcome {
        check_eq!(got, self.expected(comm)?, "{what}");
        Ok(())
    }
}

/// The random numbers of a rank in a round.
fn random(rank: Rank, round: usize) -> impl FnMut(usize) -> usize {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(round as u64 * 1_000_003 + rank as u64);
    move |limit| (random.next_u64() % limit as u64) as usize
}

/// Whether `TREEPIE_LONG` asks for runs that take minutes.
fn is_long_run() -> bool {
    std::env::var_os("TREEPIE_LONG").is_some()
}

/// `count`, or a tenth of it where each item costs much more: over MPI, simulated, or with more ranks than cores.
fn scaled_count(comm: &Comm, count: usize) -> usize {
    let is_slow = !["threads", "shm"].contains(&comm.engine()) || comm.size() > 4;
    if is_slow && !is_long_run() { count.div_ceil(10) } else { count }
}

/// Routings of every kind. Over MPI with more than two ranks only two of them, which depend on the number of ranks.
fn selected_routings(comm: &Comm) -> Vec<String> {
    let mut some = routings(comm.size()).to_vec();
    if comm.engine() == "mpi" && comm.size() > 2 && !is_long_run() {
        some.rotate_left(comm.size() % 5);
        some.truncate(2);
    }
    some
}

/// One routing of each kind for `ranks` ranks.
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
