//! Exchanges on communicators.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use treepie_base::{Bytes, Error, Pod, Rank, Result};
use treepie_comm::protocol::{Means, log_choice};
use treepie_comm::{Comm, Request};
use treepie_model::LogGP;

use crate::census::Census;
use crate::choose::{Costs, choose};
use crate::pattern::Pattern;
use crate::protocol::{Exchange, Place, Post, Protocol};

/// What came: who sent it, and what.
pub type Received<T> = Vec<(Rank, Vec<T>)>;

/// Exchanges in which every rank knows whom it sends to, and nobody knows who will send to them.
///
/// All ranks of the communicator call the same one. `using("exchange/nbx")` on a handle, or `TREEPIE_ALGORITHM`, says by which
/// protocol; else it is chosen by what the exchanges on this communicator were like so far.
pub trait SparseExchange {
    /// Sends messages to ranks, and returns those that were sent to this one, in the order of their sources, and of one
    /// source in the order in which it sent them. There may be none, several to one rank, and some to oneself.
    ///
    /// # Errors
    /// [`Error::BadRank`] for a destination that does not exist; then the others get [`Error::GaveUp`], or
    /// [`Error::CallsDiffer`] in checked mode, and nothing is received anywhere. [`Error::Mismatch`] where a message is no whole number of elements: it was sent as something else.
    /// [`Error::PeerLost`] if a rank ends in the middle of it.
    fn exchange<T: Pod>(&self, messages: impl IntoIterator<Item = (Rank, Vec<T>)>) -> Result<Received<T>>;

    /// Begins an exchange; the request gives what came. Several may go on at once, and end in any order.
    fn iexchange<T: Pod>(
        &self,
        messages: impl IntoIterator<Item = (Rank, Vec<T>)>,
    ) -> Result<Request<'static, Received<T>>>;

    /// Sends messages, and hands those that were sent to this rank to `handle` as they come, in no order, but those of one
    /// source in theirs; nothing is kept. `handle` may use the communicator for messages, not for operations of all ranks. If
    /// it panics, this rank takes part to the end without handling anything more, and panics then.
    fn exchange_with<T: Pod>(
        &self,
        messages: impl IntoIterator<Item = (Rank, Vec<T>)>,
        handle: impl FnMut(Rank, Vec<T>),
    ) -> Result<()>;

    /// Finds out who sends to this rank if each rank sends to its `destinations`, to be used as long as they stay the same.
    fn pattern(&self, destinations: impl IntoIterator<Item = Rank>) -> Result<Pattern>;
}

/// What is known of the exchanges on a communicator.
#[derive(Default)]
struct History {
    /// Of the last blocking one; nothing if that has failed. Nonblocking ones end at other times on other ranks, so nothing is
    /// learnt of them.
    seen: Cell<Census>,
    /// The protocol of the last one.
    last: Cell<Option<Protocol>>,
    /// What was chosen for exchanges like that, by these means.
    chosen: Cell<Option<(Census, Means, Protocol)>>,
}

impl History {
    /// The protocol for exchanges like the last one.
    fn choose(&self, comm: &Comm, means: Means) -> Protocol {
        let seen = self.seen.get();
        if let Some((like, by, protocol)) = self.chosen.get()
            && (like, by) == (seen, means)
        {
            return protocol;
        }
        let costs = comm.ranks_per_core().map_or_else(|| Costs::of_network(NETWORK), Costs::of_machine);
        let protocol = choose(comm.size() as u32, means, &costs, seen);
        self.chosen.set(Some((seen, means, protocol)));
        protocol
    }
}

/// Messages as they are sent, or why they cannot be.
fn checked<T: Pod>(comm: &Comm, messages: impl IntoIterator<Item = (Rank, Vec<T>)>) -> Result<Vec<(u32, Bytes)>> {
    let size = comm.size();
    let checked = |(rank, data): (Rank, Vec<T>)| {
        if rank < size { Ok((rank as u32, Bytes::from(data))) } else { Err(Error::BadRank { rank, size }) }
    };
    messages.into_iter().map(checked).collect()
}

fn elements<T: Pod>(bytes: Bytes) -> Result<Vec<T>> {
    let element = size_of::<T>();
    bytes.into_vec().map_err(|bytes| Error::Mismatch { bytes: bytes.as_slice().len() as u64, element })
}

fn received<T: Pod>(post: &mut Post) -> Result<Received<T>> {
    let all = post.take_sorted().into_iter();
    all.map(|(from, bytes)| Ok((from as Rank, elements(bytes)?))).collect()
}

/// By which protocol, as was asked for or is cheapest.
fn protocol(comm: &Comm, means: Means) -> Result<Protocol> {
    let history = comm.attachment::<History>();
    let protocol = match comm.asked_protocol("exchange")?.filter(|id| *id != AUTO) {
        Some(id) => id.parse::<Protocol>()?,
        None => history.choose(comm, means),
    };
    if let Some(lacking) = protocol.lacks(means) {
        return Err(Error::Algorithm(format!("{protocol} needs {lacking}, which there is not here")));
    }
    if history.last.replace(Some(protocol)) != Some(protocol) {
        log_choice(comm, format_args!("{protocol} for {} ranks", comm.size()));
    }
    Ok(protocol)
}

/// The protocol of the exchange that was last begun on this communicator.
pub fn chosen_protocol(comm: &Comm) -> Option<Protocol> {
    comm.attachment::<History>().last.get()
}

const AUTO: &str = "exchange/auto";

/// Of a usual cluster; where nothing is known, only how parameters compare matters.
const NETWORK: LogGP = LogGP { latency: 1.5, overhead: 0.4, gap: 0.4, per_byte: 0.0001 };

/// The exchange on this rank. If its messages are refused, the protocol is the same, and given up at once.
fn begin<T: Pod>(
    comm: &Comm,
    means: Means,
    messages: impl IntoIterator<Item = (Rank, Vec<T>)>,
) -> Result<Box<dyn Exchange>> {
    let at = Place { rank: comm.rank() as u32, ranks: comm.size() as u32 };
    let protocol = protocol(comm, means);
    // Others must not wait for a rank that does not take part. Those who give up need not agree about the protocol.
    let give_up = || {
        let protocol = *protocol.as_ref().unwrap_or(&Protocol::Nbx);
        comm.give_up_protocol(protocol.begin(at, means, Vec::new()), means.barrier);
    };
    // The iterator is the program's, and may panic.
    match catch_unwind(AssertUnwindSafe(|| checked(comm, messages))) {
        Ok(Ok(messages)) if protocol.is_ok() => Ok(protocol?.begin(at, means, messages)),
        Ok(messages) => {
            give_up();
            Err(protocol.err().or(messages.err()).expect("one of them is an error"))
        }
        Err(panic) => {
            give_up();
            resume_unwind(panic)
        }
    }
}

fn run<T: Pod>(
    comm: &Comm,
    messages: impl IntoIterator<Item = (Rank, Vec<T>)>,
    meanwhile: impl FnMut(&mut Box<dyn Exchange>),
) -> Result<Box<dyn Exchange>> {
    let exchange = begin(comm, comm.means(), messages);
    let is_refused = exchange.is_err();
    let exchange = exchange.and_then(|exchange| comm.run_protocol(exchange, align_of::<T>(), meanwhile));
    // It never began, and ranks that called something else know nothing of it.
    if comm.is_checked() && (is_refused || matches!(exchange, Err(Error::CallsDiffer { .. }))) {
        return exchange;
    }
    // If it failed on some ranks only, these choose another protocol than the others for the next one. That fails on all,
    // since each message names its protocol, and then all choose the same again.
    let seen = exchange.as_ref().map_or(Census::default(), |exchange| exchange.census());
    comm.attachment::<History>().seen.set(seen);
    exchange
}

impl SparseExchange for Comm {
    fn exchange<T: Pod>(&self, messages: impl IntoIterator<Item = (Rank, Vec<T>)>) -> Result<Received<T>> {
        received(run(self, messages, |_| {})?.post())
    }

    fn iexchange<T: Pod>(
        &self,
        messages: impl IntoIterator<Item = (Rank, Vec<T>)>,
    ) -> Result<Request<'static, Received<T>>> {
        let exchange = begin(self, Means::default(), messages)?;
        Ok(self.start_protocol(exchange, align_of::<T>(), |exchange| received(exchange.post())))
    }

    fn exchange_with<T: Pod>(
        &self,
        messages: impl IntoIterator<Item = (Rank, Vec<T>)>,
        mut handle: impl FnMut(Rank, Vec<T>),
    ) -> Result<()> {
        let (mut failure, mut panic) = (None, None);
        let result = run(self, messages, |exchange| {
            for (from, bytes) in exchange.post().take_received() {
                match elements(bytes) {
                    // If this rank gave up now, it would not learn by what the others choose the next protocol.
                    Ok(data) if panic.is_none() => {
                        panic = catch_unwind(AssertUnwindSafe(|| handle(from as Rank, data))).err();
                    }
                    Ok(_) => {}
                    Err(error) => failure = failure.take().or(Some(error)),
                }
            }
        });
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
        result?;
        failure.map_or(Ok(()), Err)
    }

    fn pattern(&self, destinations: impl IntoIterator<Item = Rank>) -> Result<Pattern> {
        Pattern::discover(self, destinations)
    }
}
