//! What a rank did when: the timeline of buffers and epochs, as Chrome and Perfetto show it.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A timeline of one rank.
#[derive(Debug)]
pub(crate) struct Trace {
    rank: u32,
    /// The engine's time when the runtime last looked, and the moment of that. Where time is virtual it stands still between.
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
        Self { rank, engine: Duration::ZERO, looked: None, events: Vec::new() }
    }

    /// The engine's time now; `goes_on` if it does so by itself.
    pub(crate) fn look(&mut self, engine: Duration, goes_on: bool) {
        self.engine = engine;
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

    pub(crate) fn epoch(&mut self, name: String, start: Duration) {
        let length = Some(self.now().saturating_sub(start));
        self.events.push(Event { name: What::Epoch(name), start, length, peer: self.rank, amount: 0 });
    }

    /// Writes it to a file, and nothing if that cannot be written whole.
    pub(crate) fn write(&self, path: &Path, names: &[String]) -> io::Result<()> {
        let micros = |time: Duration| time.as_nanos() as f64 / 1000.0;
        let one = |event: &Event| -> Value {
            let (track, name, args) = match &event.name {
                What::Epoch(name) => (0, format!("epoch {name}"), json!({})),
                What::Wave => (0, "wave".to_owned(), json!({})),
                What::Handled(index) => {
                    (1, names[*index].clone(), json!({ "from": event.peer, "messages": event.amount }))
                }
                What::Sent(index) => (2, names[*index].clone(), json!({ "to": event.peer, "bytes": event.amount })),
            };
            let mut value = json!({
                "name": name, "pid": self.rank, "tid": track, "ts": micros(event.start), "args": args,
            });
            match event.length {
                Some(length) => {
                    value["ph"] = "X".into();
                    value["dur"] = micros(length).into();
                }
                None => {
                    value["ph"] = "i".into();
                    value["s"] = "t".into();
                }
            }
            value
        };
        let label = |what: &str, track: Option<u32>, name: &str| json!({ "name": what, "ph": "M", "pid": self.rank, "tid": track, "args": { "name": name } });
        let mut events = vec![label("process_name", None, &format!("rank {}", self.rank))];
        for (track, name) in ["epochs", "handled", "sent"].into_iter().enumerate() {
            events.push(label("thread_name", Some(track as u32), name));
        }
        events.extend(self.events.iter().map(one));
        let partial = path.with_extension("partial");
        let mut file = io::BufWriter::new(std::fs::File::create(&partial)?);
        serde_json::to_writer(&mut file, &json!({ "traceEvents": events }))?;
        file.flush()?;
        std::fs::rename(partial, path)
    }
}
