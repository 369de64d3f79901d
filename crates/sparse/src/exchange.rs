//! Sparse exchanges on communicators.

use std::cell::Cell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use serde::Serialize;
use serde::de::DeserializeOwned;
use treepie_base::{Bytes, Error, Pod, Rank, Result};
use treepie_comm::protocol::{ReactorCapabilities, RingPosition, log_choice};
use treepie_comm::{Comm, Network, Request, object};

use crate::pattern::{Pattern, Received, sort_dedup};
use crate::protocol::{AUTO, ExchangeBuffers, ExchangeProtocol, ExchangeReactor};
use crate::routes::{NetworkRoutes, RouteTimes};
use crate::selection::{ProtocolCosts, choose};
use crate::traffic_summary::TrafficSummary;

/// Dynamic sparse data exchange: every rank knows its destinations, no rank knows its sources.
///
/// These are collective operations. `with_algorithm("exchange/nbx")` on a handle, or `TREEPIE_ALGORITHM`, selects the
/// protocol. Otherwise it is chosen from the previous exchange on this communicator.
pub trait SparseExchange {
    /// Sends messages and returns those sent to this rank, sorted by source; those of one source in the order sent. A
    /// rank may send nothing, several messages to one rank, and messages to itself.
    ///
    /// # Errors
    /// [`Error::BadRank`] for a destination that does not exist. The other ranks then get [`Error::Aborted`], or
    /// [`Error::CollectiveMismatch`] in checked mode, and no rank receives anything. [`Error::PartialElement`] if a
    /// message is not a whole number of elements: its sender used another type. [`Error::PeerLost`] if a rank ends
    /// during the exchange.
    fn exchange<T: Pod>(&self, messages: impl IntoIterator<Item = (Rank, Vec<T>)>) -> Result<Received<T>>;

    /// Starts a nonblocking exchange; the request returns the received messages. Several may be active at once and
    /// complete in any order.
    fn iexchange<T: Pod>(
        &self,
        messages: impl IntoIterator<Item = (Rank, Vec<T>)>,
    ) -> Result<Request<'static, Received<T>>>;

    /// Sends messages, and passes each message for this rank to `handle` on arrival instead of storing it. Messages of
    /// one source arrive in the order sent; there is no order between sources. `handle` may use the communicator for
    /// point-to-point messages, not for collective operations. If it panics, this rank completes the exchange without
    /// calling it again, and then resumes the panic.
    fn exchange_with<T: Pod>(
        &self,
        messages: impl IntoIterator<Item = (Rank, Vec<T>)>,
        handle: impl FnMut(Rank, Vec<T>),
    ) -> Result<()>;

    /// Like [`exchange`](Self::exchange), of one object of any type that serde serializes for each destination.
    ///
    /// # Errors
    /// [`Error::Object`] on a rank whose object cannot be serialized; the other ranks get [`Error::Aborted`], or
    /// [`Error::CollectiveMismatch`] in checked mode. [`Error::Object`] on a rank that receives an object of another
    /// type.
    fn exchange_objects<T: Serialize + DeserializeOwned>(
        &self,
        messages: impl IntoIterator<Item = (Rank, T)>,
    ) -> Result<Vec<(Rank, T)>>;

    /// Sends each item to the rank that `owner` says, all of one rank in one message, and returns the items for this
    /// rank: sorted by source, those of one source in their order there.
    ///
    /// # Errors
    /// As [`exchange`](Self::exchange).
    fn exchange_by_owner<T: Pod>(
        &self,
        items: impl IntoIterator<Item = T>,
        owner: impl FnMut(&T) -> Rank,
    ) -> Result<Vec<T>>;

    /// Discovers the sources of this rank for fixed `destinations`, for repeated exchanges with the same neighbors.
    fn pattern(&self, destinations: impl IntoIterator<Item = Rank>) -> Result<Pattern>;
}

/// The history of exchanges on a communicator.
#[derive(Default)]
struct ExchangeHistory {
    /// Summary of the last blocking exchange; empty if that failed. Nonblocking ones complete at different times on
    /// different ranks, so they are not recorded.
    last_summary: Cell<TrafficSummary>,
    /// The protocol of the last exchange.
    last_protocol: Cell<Option<ExchangeProtocol>>,
    /// The last choice, and what it was made for.
    chosen: Cell<Option<(ChoiceKey, ExchangeProtocol)>>,
}

/// What a choice depends on. A summary also has the classes of shorter messages, which differ from one exchange to the
/// next.
#[derive(Clone, Copy, PartialEq)]
struct ChoiceKey {
    max_neighbors: Option<u64>,
    max_message_bytes: Option<u64>,
    capabilities: ReactorCapabilities,
    /// Handles of a communicator may have different networks.
    times: RouteTimes,
}

impl ExchangeHistory {
    /// The cheapest protocol for exchanges like the last one.
    fn choose(&self, comm: &Comm, capabilities: ReactorCapabilities, times: RouteTimes) -> ExchangeProtocol {
        let summary = self.last_summary.get();
        let (max_neighbors, max_message_bytes) = (summary.max_neighbors(), summary.max_message_bytes());
        let key = ChoiceKey { max_neighbors, max_message_bytes, capabilities, times };
        if let Some((of, protocol)) = self.chosen.get()
            && of == key
        {
            return protocol;
        }
        let flat = Network::flat(comm.size() as u32);
        let costs = ProtocolCosts { routes: times, ..ProtocolCosts::new(&comm.message_costs(&flat)) };
        let protocol = choose(comm.size() as u32, capabilities, &costs, summary);
        self.chosen.set(Some((key, protocol)));
        protocol
    }
}

/// Checks destinations and converts messages to bytes.
fn validate_messages<T: Pod>(
    comm: &Comm,
    messages: impl IntoIterator<Item = Result<(Rank, Vec<T>)>>,
) -> Result<Vec<(u32, Bytes)>> {
    let size = comm.size();
    let checked = |message: Result<(Rank, Vec<T>)>| {
        let (rank, data) = message?;
        if rank < size { Ok((rank as u32, Bytes::from(data))) } else { Err(Error::BadRank { rank, size }) }
    };
    messages.into_iter().map(checked).collect()
}

fn elements<T: Pod>(bytes: Bytes) -> Result<Vec<T>> {
    let element = size_of::<T>();
    bytes.into_vec().map_err(|bytes| Error::PartialElement { bytes: bytes.as_slice().len() as u64, element })
}

fn take_received<T: Pod>(buffers: &mut ExchangeBuffers) -> Result<Received<T>> {
    let all = buffers.take_sorted().into_iter();
    all.map(|(from, bytes)| Ok((from as Rank, elements(bytes)?))).collect()
}

/// The requested protocol, or else the cheapest.
fn select_protocol(comm: &Comm, capabilities: ReactorCapabilities, times: RouteTimes) -> Result<ExchangeProtocol> {
    let history = comm.attribute::<ExchangeHistory>();
    let protocol = match comm.requested_protocol("exchange")?.filter(|id| *id != AUTO) {
        Some(id) => id.parse::<ExchangeProtocol>()?,
        None => history.choose(comm, capabilities, times),
    };
    if let Some(missing) = protocol.missing_capability(capabilities) {
        return Err(Error::Algorithm(format!("{protocol} needs {missing}, which this engine does not have")));
    }
    if history.last_protocol.replace(Some(protocol)) != Some(protocol) {
        log_choice(comm, format_args!("{protocol} for {} ranks", comm.size()));
    }
    Ok(protocol)
}

/// The protocol of the exchange last started on this communicator.
pub fn chosen_protocol(comm: &Comm) -> Option<ExchangeProtocol> {
    comm.attribute::<ExchangeHistory>().last_protocol.get()
}

/// Starts the exchange on this rank. If its messages are invalid, starts the same protocol and aborts it at once.
fn begin<T: Pod>(
    comm: &Comm,
    capabilities: ReactorCapabilities,
    messages: impl IntoIterator<Item = Result<(Rank, Vec<T>)>>,
) -> Result<Box<dyn ExchangeReactor>> {
    let position = RingPosition { rank: comm.rank() as u32, ranks: comm.size() as u32 };
    let NetworkRoutes { routes, times } = NetworkRoutes::of(comm);
    let protocol = select_protocol(comm, capabilities, times);
    // Other ranks must not wait for a rank that does not take part. Ranks that abort need not agree on the protocol.
    let abort = || {
        let protocol = *protocol.as_ref().unwrap_or(&ExchangeProtocol::Nbx);
        comm.abort_protocol(protocol.begin(position, capabilities, &routes, Vec::new()), capabilities.barrier);
    };
    // The iterator is user code, and may panic.
    match catch_unwind(AssertUnwindSafe(|| validate_messages(comm, messages))) {
        Ok(Ok(messages)) if protocol.is_ok() => Ok(protocol?.begin(position, capabilities, &routes, messages)),
        Ok(messages) => {
            abort();
            Err(protocol.err().or(messages.err()).expect("one of them is an error"))
        }
        Err(panic) => {
            abort();
            resume_unwind(panic)
        }
    }
}

fn run<T: Pod>(
    comm: &Comm,
    messages: impl IntoIterator<Item = Result<(Rank, Vec<T>)>>,
    meanwhile: impl FnMut(&mut Box<dyn ExchangeReactor>),
) -> Result<Box<dyn ExchangeReactor>> {
    let exchange = begin(comm, comm.capabilities(), messages);
    let is_invalid = exchange.is_err();
    let exchange = exchange.and_then(|exchange| comm.run_protocol(exchange, align_of::<T>(), meanwhile));
    // The exchange never started; ranks that called another operation have no record of it.
    if comm.is_checked() && (is_invalid || matches!(exchange, Err(Error::CollectiveMismatch { .. }))) {
        return exchange;
    }
    // If the exchange failed on some ranks only, these choose another protocol for the next one. That fails on all
    // ranks, since tags identify the protocol, and then all choose the same again.
    let summary = exchange.as_ref().map_or(TrafficSummary::default(), |exchange| exchange.traffic_summary());
    comm.attribute::<ExchangeHistory>().last_summary.set(summary);
    exchange
}

impl SparseExchange for Comm {
    fn exchange<T: Pod>(&self, messages: impl IntoIterator<Item = (Rank, Vec<T>)>) -> Result<Received<T>> {
        take_received(run(self, messages.into_iter().map(Ok), |_| {})?.buffers())
    }

    fn iexchange<T: Pod>(
        &self,
        messages: impl IntoIterator<Item = (Rank, Vec<T>)>,
    ) -> Result<Request<'static, Received<T>>> {
        let exchange = begin(self, ReactorCapabilities::default(), messages.into_iter().map(Ok))?;
        Ok(self.start_protocol(exchange, align_of::<T>(), |exchange| take_received(exchange.buffers())))
    }

    fn exchange_with<T: Pod>(
        &self,
        messages: impl IntoIterator<Item = (Rank, Vec<T>)>,
        mut handle: impl FnMut(Rank, Vec<T>),
    ) -> Result<()> {
        let (mut failure, mut panic) = (None, None);
        let result = run(self, messages.into_iter().map(Ok), |exchange| {
            for (from, bytes) in exchange.buffers().take_received() {
                match elements(bytes) {
                    // If this rank aborted now, it would miss the summary by which the others choose the next protocol.
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

    fn exchange_objects<T: Serialize + DeserializeOwned>(
        &self,
        messages: impl IntoIterator<Item = (Rank, T)>,
    ) -> Result<Vec<(Rank, T)>> {
        let encoded = messages.into_iter().map(|(to, message)| Ok((to, object::encode(&message)?)));
        let received: Received<u8> = take_received(run(self, encoded, |_| {})?.buffers())?;
        received.into_iter().map(|(from, bytes)| Ok((from, object::decode(&bytes)?))).collect()
    }

    fn exchange_by_owner<T: Pod>(
        &self,
        items: impl IntoIterator<Item = T>,
        mut owner: impl FnMut(&T) -> Rank,
    ) -> Result<Vec<T>> {
        // Lazily: the items and the owner map are user code, which may panic, and then the exchange is aborted.
        let messages = std::iter::once_with(|| {
            let mut by_owner = HashMap::<Rank, Vec<T>>::new();
            items.into_iter().for_each(|item| by_owner.entry(owner(&item)).or_default().push(item));
            let mut messages: Vec<(Rank, Vec<T>)> = by_owner.into_iter().collect();
            // The order of a map is random, and simulations are to be repeatable.
            messages.sort_unstable_by_key(|(owner, _)| *owner);
            messages
        });
        let mut received = self.exchange(messages.flatten())?.into_iter().map(|(_, items)| items);
        let (mut all, rest) = (received.next().unwrap_or_default(), received.collect::<Vec<_>>());
        all.reserve_exact(rest.iter().map(Vec::len).sum());
        rest.into_iter().for_each(|items| all.extend(items));
        Ok(all)
    }

    fn pattern(&self, destinations: impl IntoIterator<Item = Rank>) -> Result<Pattern> {
        let destinations = sort_dedup(destinations);
        let empty = destinations.iter().map(|to| (*to, Vec::<u8>::new()));
        let sources = self.exchange(empty)?.into_iter().map(|(from, _)| from).collect();
        // Its messages must not match receives of the program.
        Ok(Pattern::new(self.dup()?, destinations, sources))
    }
}
