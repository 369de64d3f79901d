//! Lines of the ranks with labels, on the way from their pipes to the launcher's output.
//!
//! A [`Sink`] is a place where output goes; standard output and standard error are one sink when both are the same
//! terminal or file, so that a line is never broken by another. What waits to be written to a sink is bounded: while it
//! is full, its pipes are not read, and ranks that write more wait as they would for a slow terminal. Nothing here
//! blocks, so that the launcher stays able to end the job.

use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fs::fstat;
use rustix::io::{Errno, ioctl_fionread, read, write};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::stdio;

use super::Label;
use super::signals::Signals;

/// A sink that has this much waiting takes no more for now.
const FULL: usize = 256 << 10;
/// A longer line is broken, or a rank that never ends its line would fill the memory.
const LONGEST_LINE: usize = 1 << 20;
/// Written at a time: a pipe that is ready for writing takes at least so much without blocking.
const PIECE: usize = 4096;
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// The two streams of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Out,
    Err,
}

/// Passes on what ranks write; made without sinks when they write to the launcher's descriptors themselves.
pub(super) struct Output {
    sinks: Vec<Sink>,
    /// Which of the sinks a stream goes to, if it gets labels.
    out: Option<usize>,
    err: Option<usize>,
}

struct Sink {
    target: BorrowedFd<'static>,
    /// All pipes that lead here.
    pipes: OwnedFd,
    /// By the number that `pipes` knows them by; `None` once a pipe has ended.
    sources: Vec<Option<Source>>,
    /// Labelled lines; those before `written` are gone already.
    waiting: Vec<u8>,
    written: usize,
    /// Nobody takes what is written here any more.
    broken: bool,
}

struct Source {
    pipe: OwnedFd,
    lines: Lines,
}

impl Output {
    pub(super) fn new(label: Label) -> io::Result<Self> {
        let labelled = |is_terminal: bool| match label {
            Label::Auto => is_terminal,
            Label::Always => true,
            Label::Never => false,
        };
        let mut output = Self { sinks: Vec::new(), out: None, err: None };
        if labelled(io::stdout().is_terminal()) {
            output.out = Some(output.add_sink(stdio::stdout())?);
        }
        if labelled(io::stderr().is_terminal()) {
            output.err = match output.out {
                Some(out) if same_file(stdio::stdout(), stdio::stderr()) => Some(out),
                _ => Some(output.add_sink(stdio::stderr())?),
            };
        }
        Ok(output)
    }

    fn add_sink(&mut self, target: BorrowedFd<'static>) -> io::Result<usize> {
        self.sinks.push(Sink {
            target,
            pipes: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            sources: Vec::new(),
            waiting: Vec::new(),
            written: 0,
            broken: false,
        });
        Ok(self.sinks.len() - 1)
    }

    /// How many pipes each rank needs.
    pub(super) fn pipes_per_rank(&self) -> u64 {
        u64::from(self.out.is_some()) + u64::from(self.err.is_some())
    }

    /// The end of a new pipe that `rank` writes this stream to, or nothing if it writes to the launcher's descriptor.
    pub(super) fn pipe(&mut self, rank: u32, stream: Stream) -> io::Result<Option<OwnedFd>> {
        let index = match stream {
            Stream::Out => self.out,
            Stream::Err => self.err,
        };
        let Some(index) = index else { return Ok(None) };
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        self.sinks[index].add_source(reader, rank)?;
        Ok(Some(writer))
    }

    /// What to wait for before there is something to [`pass_on`](Self::pass_on).
    pub(super) fn awaited<'a>(&'a self, list: &mut Vec<PollFd<'a>>) {
        for sink in &self.sinks {
            if !sink.is_full() && !sink.broken {
                list.push(PollFd::new(&sink.pipes, PollFlags::IN));
            }
            if sink.has_waiting() {
                list.push(PollFd::new(&sink.target, PollFlags::OUT));
            }
        }
    }

    /// Reads and writes what can be read and written now.
    pub(super) fn pass_on(&mut self) -> io::Result<()> {
        for sink in &mut self.sinks {
            if !sink.is_full() {
                sink.read_ready()?;
            }
            sink.write_ready();
        }
        Ok(())
    }

    /// Passes on what ranks that have all ended left in their pipes, without waiting for the pipes to end: a process
    /// that outlives its rank may hold one open for ever. Gives up at `deadline` or when asked to end by a signal,
    /// which it returns.
    pub(super) fn finish(&mut self, signals: &Signals, deadline: Option<Instant>) -> Option<i32> {
        for sink in &mut self.sinks {
            for index in 0..sink.sources.len() {
                sink.drain(index);
                if sink.is_full()
                    && let Err(signal) = sink.write_all(signals, deadline)
                {
                    return signal;
                }
            }
            if let Err(signal) = sink.write_all(signals, deadline) {
                return signal;
            }
        }
        None
    }
}

impl Sink {
    fn is_full(&self) -> bool {
        self.waiting.len() - self.written >= FULL
    }

    fn has_waiting(&self) -> bool {
        self.written < self.waiting.len()
    }

    fn add_source(&mut self, pipe: OwnedFd, rank: u32) -> io::Result<()> {
        if self.broken {
            // The rank learns of it as it would if it wrote to the target itself.
            return Ok(());
        }
        let number = epoll::EventData::new_u64(self.sources.len() as u64);
        epoll::add(&self.pipes, &pipe, number, epoll::EventFlags::IN)?;
        self.sources.push(Some(Source { pipe, lines: Lines::of(rank) }));
        Ok(())
    }

    /// Reads once from each of some pipes that have something.
    fn read_ready(&mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(16);
        match epoll::wait(&self.pipes, rustix::buffer::spare_capacity(&mut events), Some(&NOW)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        for event in events {
            let data = event.data;
            self.read_once(data.u64() as usize, usize::MAX);
        }
        Ok(())
    }

    /// Reads at most `most` bytes that are known to be there, or the end of the pipe. Returns how many it read.
    fn read_once(&mut self, index: usize, most: usize) -> usize {
        let Some(source) = &mut self.sources[index] else { return 0 };
        let mut bytes = [0; 16 << 10];
        let room = most.min(bytes.len());
        match read(&source.pipe, &mut bytes[..room]) {
            Ok(count @ 1..) => {
                source.lines.push(&bytes[..count], &mut self.waiting);
                count
            }
            Err(Errno::INTR) => 0,
            Ok(0) | Err(_) => {
                self.close(index);
                0
            }
        }
    }

    fn close(&mut self, index: usize) {
        if let Some(mut source) = self.sources[index].take() {
            // Closing alone would not do while a process between fork and exec holds the pipe too.
            let _ = epoll::delete(&self.pipes, &source.pipe);
            source.lines.end(&mut self.waiting);
        }
    }

    /// Reads what is in a pipe at this moment, then closes it.
    fn drain(&mut self, index: usize) {
        let there = self.sources[index].as_ref().map_or(0, |source| ioctl_fionread(&source.pipe).unwrap_or(0));
        let mut left = there as usize;
        while left > 0 && self.sources[index].is_some() {
            left -= self.read_once(index, left);
        }
        self.close(index);
    }

    /// Writes while the target is ready.
    fn write_ready(&mut self) {
        while self.has_waiting() && !self.broken {
            let mut ready = [PollFd::new(&self.target, PollFlags::OUT)];
            if !matches!(poll(&mut ready, Some(&NOW)), Ok(1)) {
                return;
            }
            let rest = &self.waiting[self.written..];
            match write(self.target, &rest[..rest.len().min(PIECE)]) {
                Ok(count) => self.written += count,
                Err(Errno::INTR | Errno::AGAIN) => return,
                Err(_) => self.give_up(),
            }
        }
        if !self.has_waiting() || self.written >= FULL {
            self.waiting.drain(..self.written);
            self.written = 0;
        }
    }

    /// Nobody takes the output: the ranks are to see the same, by a pipe that nobody reads.
    fn give_up(&mut self) {
        self.broken = true;
        self.sources.fill_with(|| None);
        self.waiting.clear();
        self.written = 0;
    }

    /// Writes everything that waits, or says why it gave up: a signal or the deadline.
    fn write_all(&mut self, signals: &Signals, deadline: Option<Instant>) -> Result<(), Option<i32>> {
        loop {
            self.write_ready();
            if !self.has_waiting() {
                return Ok(());
            }
            let timeout = match deadline {
                None => None,
                Some(deadline) if deadline <= Instant::now() => return Err(None),
                Some(deadline) => Timespec::try_from(deadline - Instant::now()).ok(),
            };
            let mut list = [PollFd::new(&self.target, PollFlags::OUT), PollFd::new(signals, PollFlags::IN)];
            let _ = poll(&mut list, timeout.as_ref());
            let asked = signals.take().into_iter().find(|&signal| super::signals::asks_to_end(signal));
            if asked.is_some() {
                return Err(asked);
            }
        }
    }
}

/// Cuts what one rank writes to one stream into lines and labels them.
struct Lines {
    label: String,
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
}

impl Lines {
    fn of(rank: u32) -> Self {
        Self { label: format!("[{rank}] "), begun: Vec::new() }
    }

    fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            if piece.ends_with(b"\n") {
                self.line(piece, out);
            } else {
                self.begun.extend_from_slice(piece);
                if self.begun.len() >= LONGEST_LINE {
                    self.line(b"\n", out);
                }
            }
        }
    }

    /// The stream has ended; a last line without an end gets one.
    fn end(&mut self, out: &mut Vec<u8>) {
        if !self.begun.is_empty() {
            self.line(b"\n", out);
        }
    }

    fn line(&mut self, rest: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(self.label.as_bytes());
        out.append(&mut self.begun);
        self.begun.shrink_to(PIECE);
        out.extend_from_slice(rest);
    }
}

fn same_file(one: impl AsFd, other: impl AsFd) -> bool {
    match (fstat(one), fstat(other)) {
        (Ok(one), Ok(other)) => (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(pieces: &[&[u8]]) -> String {
        let (mut lines, mut out) = (Lines::of(7), Vec::new());
        for piece in pieces {
            lines.push(piece, &mut out);
        }
        lines.end(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_line_gets_its_label_however_it_arrives() {
        assert_eq!(labelled(&[b"a\nb\n"]), "[7] a\n[7] b\n");
        assert_eq!(labelled(&[b"a", b"b", b"\n\nc"]), "[7] ab\n[7] \n[7] c\n");
        assert_eq!(labelled(&[]), "");
        assert_eq!(labelled(&[b"a\n", b""]), "[7] a\n");
    }

    #[test]
    fn a_line_is_whole_up_to_the_longest_and_then_broken() {
        let nearly = vec![b'x'; LONGEST_LINE - 1];
        assert_eq!(labelled(&[&nearly, b"y\n"]).lines().count(), 1);
        let longer = vec![b'x'; LONGEST_LINE];
        let broken = labelled(&[&longer, b"y\n"]);
        assert_eq!(broken.lines().map(|line| line.len()).collect::<Vec<_>>(), [LONGEST_LINE + 4, 5]);
    }
}
