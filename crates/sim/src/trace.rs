//! A record of what ranks did, for `chrome://tracing` and Perfetto.

use std::fmt::{self, Write};

use crate::machine::Message;
use crate::time::{Time, micros};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Span { rank: u32, begin: Time, end: Time, name: &'static str },
    Sent { rank: u32, to: u32, bytes: u64, begin: Time, end: Time },
    Delivered { rank: u32, from: u32, bytes: u64, at: Time },
}

/// What ranks did, in the order in which it was found out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    entries: Vec<Entry>,
}

impl Trace {
    pub(crate) fn span(&mut self, rank: u32, begin: Time, end: Time, name: &'static str) {
        self.entries.push(Entry::Span { rank, begin, end, name });
    }

    pub(crate) fn sent(&mut self, begin: Time, end: Time, message: &Message) {
        let Message { from: rank, to, bytes, .. } = *message;
        self.entries.push(Entry::Sent { rank, to, bytes, begin, end });
    }

    pub(crate) fn delivered(&mut self, at: Time, from: u32, rank: u32, bytes: u64) {
        self.entries.push(Entry::Delivered { rank, from, bytes, at });
    }

    /// How many things were recorded.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing was.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Writes it as JSON: a thread for each rank, a span for what took CPU time, an instant for what arrived.
    pub fn json(&self, out: &mut dyn Write) -> fmt::Result {
        out.write_str("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        for (number, entry) in self.entries.iter().enumerate() {
            out.write_str(if number == 0 { "\n" } else { ",\n" })?;
            match *entry {
                Entry::Span { rank, begin, end, name } => {
                    span(out, name, rank, (begin, end))?;
                    out.write_char('}')?;
                }
                Entry::Sent { rank, to, bytes, begin, end } => {
                    span(out, "send", rank, (begin, end))?;
                    write!(out, ",\"args\":{{\"to\":{to},\"bytes\":{bytes}}}}}")?;
                }
                Entry::Delivered { rank, from, bytes, at } => write!(
                    out,
                    "{{\"name\":\"delivered\",\"ph\":\"i\",\"s\":\"t\",\"pid\":0,\"tid\":{rank},\"ts\":{},\"args\":{{\"from\":{from},\"bytes\":{bytes}}}}}",
                    micros(at)
                )?,
            }
        }
        out.write_str("\n]}\n")
    }
}

fn span(out: &mut dyn Write, name: &str, rank: u32, (begin, end): (Time, Time)) -> fmt::Result {
    let (at, duration) = (micros(begin), micros(end - begin));
    write!(out, "{{\"name\":\"{name}\",\"ph\":\"X\",\"pid\":0,\"tid\":{rank},\"ts\":{at},\"dur\":{duration}")
}
