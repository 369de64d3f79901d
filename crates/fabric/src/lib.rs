//! The engine interface ([`engine`]), and matching and protocols above every engine ([`Endpoint`]).
//!
//! | file | contents |
//! |---|---|
//! | `engine` | the [`Fabric`] trait: required and optional methods of an engine |
//! | `endpoint`, `endpoint_state` | the endpoint; its state apart from the engine: records, delivery, transfers |
//! | `progress` | progress: events, actions after a record, transfers |
//! | `wire` | record kinds and header packing |
//! | `matching`, `bins` | posted receive queue and unexpected message queue, matched in constant time |
//! | `send`, `receive`, `blocking_recv`, `probe`, `window` | point-to-point and one-sided operations |
//! | `transfer_times` | what pending sends have waited for |
//! | `send_queue` | records that wait for room in a channel |
//! | `wait`, `backoff`, `completion_queue` | test, wait, cancel; completion queues |
//! | `tasks`, `ready_tasks`, `reactor`, `protocol_queues` | background tasks; data-dependent protocols; their messages |
//! | `barrier`, `shared_segment` | nonblocking barriers on engine counters; collectives in a shared segment |
//! | `host_collective` | collective operations of the host's MPI |
//! | `abort` | aborted operations: messages that no rank will receive or send |
//! | `mismatch`, `call_signature`, `protocol_family` | detection of mismatched collective calls |
//! | `failure_detection`, `liveness_table` | failure detection; the table of lost ranks |
//! | `finalize` | finalization; the end of scopes with borrowed memory |
//!
//! A file `endpoint` below one of these has its methods of the endpoint; the file above has the data.
#![forbid(unsafe_code)]

mod abort;
mod backoff;
mod barrier;
mod bins;
mod blocking_recv;
mod call_signature;
mod completion_queue;
mod endpoint;
mod endpoint_state;
pub mod engine;
mod failure_detection;
mod finalize;
mod host_collective;
mod liveness_table;
mod matching;
mod mismatch;
mod op;
mod peers;
mod probe;
mod progress;
mod protocol_family;
mod protocol_queues;
mod reactor;
mod ready_tasks;
mod receive;
#[doc(hidden)]
pub mod search_depth;
mod send;
mod send_queue;
mod shared_segment;
mod singleton;
mod slab;
mod tasks;
mod transfer_times;
mod wait;
mod window;
mod wire;

pub use abort::AbortReason;
pub use backoff::Backoff;
pub use call_signature::CallSignature;
pub use completion_queue::CompletionQueue;
pub use endpoint::{Endpoint, RankGroup};
pub use engine::{
    BulkDescriptor, BulkError, Capabilities, Fabric, FabricEvent, Liveness, ParkKind, RecordHeader, SharedHeap,
    SharedMemory,
};
pub use host_collective::{HostCollective, HostOperation};
pub use op::{Address, Completion, Envelope, RecvTarget, Select, Started};
pub use protocol_family::ProtocolFamily;
pub use protocol_queues::{GROUP_TAG_BIT, PROTOCOL_TAG_BIT, ProtocolInstance, SUBTAG_BITS, operation_tag};
pub use reactor::{BarrierResult, PeerDependency, Reactor, Transmit};
pub use receive::MatchedUnexpected;
pub use shared_segment::{EXPOSED_ADDRESS_BYTES, SharedSegment, SlotClass};
pub use singleton::Singleton;
pub use slab::OpId;
pub use tasks::Task;
pub use transfer_times::SendWait;
pub use wire::TAG_BITS;
