//! Traces of simulated ranks, for `chrome://tracing` and Perfetto.

use std::fmt::{self, Write};

use crate::machine::SimMessage;
use crate::time::{Time, to_micros};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TraceEvent {
    Span { rank: u32, begin: Time, end: Time, name: &'static str },
    Sent { rank: u32, to: u32, bytes: u64, begin: Time, end: Time },
    Delivered { rank: u32, from: u32, bytes: u64, at: Time },
}

/// Trace events, in the order in which they were recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimTrace {
    entries: Vec<TraceEvent>,
}

impl SimTrace {
    pub(crate) fn record_span(&mut self, rank: u32, begin: Time, end: Time, name: &'static str) {
        self.entries.push(TraceEvent::Span { rank, begin, end, name });
    }

    pub(crate) fn record_send(&mut self, begin: Time, end: Time, message: &SimMessage) {
        let SimMessage { from: rank, to, bytes, .. } = *message;
        self.entries.push(TraceEvent::Sent { rank, to, bytes, begin, end });
    }

    pub(crate) fn record_delivery(&mut self, at: Time, from: u32, rank: u32, bytes: u64) {
        self.entries.push(TraceEvent::Delivered { rank, from, bytes, at });
    }

    /// The number of events.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no event was recorded.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Writes JSON trace events: a thread per rank, a span for CPU time, an instant for a delivery.
    pub fn write_json(&self, out: &mut dyn Write) -> fmt::Result {
        out.write_str("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        for (number, entry) in self.entries.iter().enumerate() {
            out.write_str(if number == 0 { "\n" } else { ",\n" })?;
            match *entry {
                TraceEvent::Span { rank, begin, end, name } => {
                    write_span(out, name, rank, (begin, end))?;
                    out.write_char('}')?;
                }
                TraceEvent::Sent { rank, to, bytes, begin, end } => {
                    write_span(out, "send", rank, (begin, end))?;
                    write!(out, ",\"args\":{{\"to\":{to},\"bytes\":{bytes}}}}}")?;
                }
                TraceEvent::Delivered { rank, from, bytes, at } => write!(
                    out,
                    "{{\"name\":\"delivered\",\"ph\":\"i\",\"s\":\"t\",\"pid\":0,\"tid\":{rank},\"ts\":{},\"args\":{{\"from\":{from},\"bytes\":{bytes}}}}}",
                    to_micros(at)
                )?,
            }
        }
        out.write_str("\n]}\n")
    }
}

fn write_span(out: &mut dyn Write, name: &str, rank: u32, (begin, end): (Time, Time)) -> fmt::Result {
    let (at, duration) = (to_micros(begin), to_micros(end - begin));
    write!(out, "{{\"name\":\"{name}\",\"ph\":\"X\",\"pid\":0,\"tid\":{rank},\"ts\":{at},\"dur\":{duration}")
}
