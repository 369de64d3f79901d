//! What a rank did when: the timeline of buffers and epochs, as Chrome and Perfetto show it.

use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use treepie_base::AtomicFile;

/// A timeline of one rank.
#[derive(Debug)]
pub(crate) struct Trace {
    rank: u32,
    /// The engine's time when the runtime was started, about the same moment on all ranks.
    origin: Duration,
    /// The engine's time since then when the runtime last looked, and the moment of that. Where time is virtual it stands still between.
    engine: Duration,
    looked: Option<Instant>,
    events: Vec<Event>,
}

#[derive(Debug)]
struct Event {
    name: What,
    start: Duration,
    /// Nothing for a moment.
    length: Option<Duration>,
    /// A rank, and bytes or messages.
    peer: u32,
    amount: u64,
}

#[derive(Debug)]
enum What {
    Epoch(String),
    Sent(usize),
    Handled(usize),
    Wave,
}

impl Trace {
    pub(crate) fn new(rank: u32) -> Self {
        Self { rank, origin: Duration::ZERO, engine: Duration::ZERO, looked: None, events: Vec::new() }
    }

    /// Times count from this one of the engine's.
    pub(crate) fn begin_at(&mut self, origin: Duration) {
        self.origin = origin;
    }

    /// The engine's time now; `goes_on` if it does so by itself.
    pub(crate) fn look(&mut self, engine: Duration, goes_on: bool) {
        self.engine = engine.saturating_sub(self.origin);
        self.looked = goes_on.then(Instant::now);
    }

    pub(crate) fn now(&self) -> Duration {
        self.engine + self.looked.map_or(Duration::ZERO, |looked| looked.elapsed())
    }

    fn moment(&mut self, name: What, peer: u32, amount: u64) {
        let start = self.now();
        self.events.push(Event { name, start, length: None, peer, amount });
    }

    pub(crate) fn sent(&mut self, index: usize, to: u32, bytes: usize) {
        self.moment(What::Sent(index), to, bytes as u64);
    }

    pub(crate) fn wave(&mut self) {
        self.moment(What::Wave, self.rank, 0);
    }

    pub(crate) fn handled(&mut self, index: usize, from: u32, messages: u64, start: Duration) {
        let length = Some(self.now().saturating_sub(start));
        self.events.push(Event { name: What::Handled(index), start, length, peer: from, amount: messages });
    }

    /// An epoch that began at a time of the engine's.
    pub(crate) fn epoch(&mut self, name: String, begun: Duration) {
        let start = begun.saturating_sub(self.origin);
        let length = Some(self.now().saturating_sub(start));
        self.events.push(Event { name: What::Epoch(name), start, length, peer: self.rank, amount: 0 });
    }

    /// Writes it to a file, and nothing if that cannot be written whole.
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
        for Event { name, start, length, peer, amount } in &self.events {
            let (track, name, args) = match name {
                What::Epoch(name) => (0, format!("epoch {name}"), String::new()),
                What::Wave => (0, "wave".to_owned(), String::new()),
                What::Handled(index) => (1, names[*index].clone(), format!("\"from\":{peer},\"messages\":{amount}")),
                What::Sent(index) => (2, names[*index].clone(), format!("\"to\":{peer},\"bytes\":{amount}")),
            };
            write!(out, ",\n{{\"name\":{},\"pid\":{rank},\"tid\":{track},", Quoted(&name))?;
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

/// A text as JSON has it.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
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
        trace.look(Duration::from_nanos(2_500), false);
        let begun = trace.now();
        trace.sent(0, 1, 80);
        trace.look(Duration::from_nanos(5_000), false);
        trace.handled(0, 2, 10, begun);
        trace.epoch("say \"a\\b\"\n".to_owned(), begun);
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
