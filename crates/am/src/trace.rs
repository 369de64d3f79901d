//! Trace: the timeline of buffers and epochs of a rank, in the format of Chrome and Perfetto.

use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use treepie_base::AtomicFile;

/// The timeline of one rank.
#[derive(Debug)]
pub(crate) struct Trace {
    rank: u32,
    /// The engine's time at the start of the runtime, about the same moment on all ranks.
    origin: Duration,
    /// The engine's time since then at the last synchronization, and the instant of that. Virtual time does not advance
    /// between.
    engine: Duration,
    synced_at: Option<Instant>,
    events: Vec<TraceEvent>,
}

#[derive(Debug)]
struct TraceEvent {
    kind: TraceEventKind,
    start: Duration,
    /// Nothing for an instant event.
    length: Option<Duration>,
    /// The peer rank, and bytes or messages.
    peer: u32,
    amount: u64,
}

#[derive(Debug)]
enum TraceEventKind {
    Epoch(String),
    Sent(usize),
    Handled(usize),
    Wave,
}

impl Trace {
    pub(crate) fn new(rank: u32) -> Self {
        Self { rank, origin: Duration::ZERO, engine: Duration::ZERO, synced_at: None, events: Vec::new() }
    }

    /// Sets the origin of time, in the engine's time.
    pub(crate) fn begin_at(&mut self, origin: Duration) {
        self.origin = origin;
    }

    /// Synchronizes with the engine's time; `is_real` if that advances by itself.
    pub(crate) fn sync_clock(&mut self, engine: Duration, is_real: bool) {
        self.engine = engine.saturating_sub(self.origin);
        self.synced_at = is_real.then(Instant::now);
    }

    pub(crate) fn now(&self) -> Duration {
        self.engine + self.synced_at.map_or(Duration::ZERO, |synced_at| synced_at.elapsed())
    }

    fn record_instant(&mut self, kind: TraceEventKind, peer: u32, amount: u64) {
        let start = self.now();
        self.events.push(TraceEvent { kind, start, length: None, peer, amount });
    }

    pub(crate) fn record_sent(&mut self, index: usize, to: u32, bytes: usize) {
        self.record_instant(TraceEventKind::Sent(index), to, bytes as u64);
    }

    pub(crate) fn record_wave(&mut self) {
        self.record_instant(TraceEventKind::Wave, self.rank, 0);
    }

    pub(crate) fn record_handled(&mut self, index: usize, from: u32, messages: u64, start: Duration) {
        let length = Some(self.now().saturating_sub(start));
        self.events.push(TraceEvent {
            kind: TraceEventKind::Handled(index),
            start,
            length,
            peer: from,
            amount: messages,
        });
    }

    /// Records an epoch; `begun` is the engine's time of its start.
    pub(crate) fn record_epoch(&mut self, name: String, begun: Duration) {
        let start = begun.saturating_sub(self.origin);
        let length = Some(self.now().saturating_sub(start));
        self.events.push(TraceEvent { kind: TraceEventKind::Epoch(name), start, length, peer: self.rank, amount: 0 });
    }

    /// Writes the trace to a file atomically.
    pub(crate) fn write(&self, path: &Path, names: &[String]) -> io::Result<()> {
        let mut file = io::BufWriter::new(AtomicFile::create(path)?);
        self.write_events(&mut file, names)?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?.commit().map(drop)
    }

    fn write_events(&self, out: &mut impl Write, names: &[String]) -> io::Result<()> {
        let rank = self.rank;
        write!(out, "{{\"traceEvents\":[")?;
        write!(out, "{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{rank},\"args\":{{\"name\":\"rank {rank}\"}}}}")?;
        for (track, name) in ["epochs", "handled", "sent"].into_iter().enumerate() {
            write!(out, ",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":{rank},\"tid\":{track},")?;
            write!(out, "\"args\":{{\"name\":\"{name}\"}}}}")?;
        }
        for TraceEvent { kind, start, length, peer, amount } in &self.events {
            let (track, name, args) = match kind {
                TraceEventKind::Epoch(name) => (0, format!("epoch {name}"), String::new()),
                TraceEventKind::Wave => (0, "wave".to_owned(), String::new()),
                TraceEventKind::Handled(index) => {
                    (1, names[*index].clone(), format!("\"from\":{peer},\"messages\":{amount}"))
                }
                TraceEventKind::Sent(index) => (2, names[*index].clone(), format!("\"to\":{peer},\"bytes\":{amount}")),
            };
            write!(out, ",\n{{\"name\":{},\"pid\":{rank},\"tid\":{track},", JsonString(&name))?;
            match length {
                Some(length) => write!(out, "\"ph\":\"X\",\"dur\":{},", micros(*length))?,
                None => write!(out, "\"ph\":\"i\",\"s\":\"t\",")?,
            }
            write!(out, "\"ts\":{},\"args\":{{{args}}}}}", micros(*start))?;
        }
        writeln!(out, "]}}")
    }
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1000.0
}

/// A string as a JSON literal.
struct JsonString<'a>(&'a str);

impl fmt::Display for JsonString<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                c if c.is_control() => write!(f, "\\u{:04x}", c as u32)?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_written_as_json() {
        let mut trace = Trace::new(3);
        trace.sync_clock(Duration::from_nanos(2_500), false);
        let begun = trace.now();
        trace.record_sent(0, 1, 80);
        trace.sync_clock(Duration::from_nanos(5_000), false);
        trace.record_handled(0, 2, 10, begun);
        trace.record_epoch("say \"a\\b\"\n".to_owned(), begun);
        let mut text = Vec::new();
        trace.write_events(&mut text, &["update".to_owned()]).unwrap();
        let read: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let events = read["traceEvents"].as_array().unwrap();
        assert_eq!(events.len(), 7);
        assert_eq!((&events[4]["ts"], &events[4]["args"]["bytes"]), (&2.5.into(), &80.into()));
        assert_eq!((&events[5]["dur"], &events[5]["name"]), (&2.5.into(), &"update".into()));
        assert_eq!(events[6]["name"], "epoch say \"a\\b\"\n");
    }
}
