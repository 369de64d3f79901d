//! Lines of the ranks on the way from their pipes to the launcher's output: whole, and with labels where those are wanted.
//!
//! Without labels what one rank writes to one stream comes out byte for byte, as long as no other rank's line comes between: a
//! line that has no end, or is longer than [`LONGEST_LINE`], gets one only where another line follows it.
//!
//! A [`Sink`] is a place where output goes; standard output and standard error are one sink when both are the same
//! terminal or file, so that a line is never broken by another. What waits to be written to a sink is bounded: while it
//! is full, its pipes are not read, and ranks that write more wait as they would for a slow terminal. Nothing here
//! blocks, so that the launcher stays able to end the job.

use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::{Errno, ioctl_fionread, read, write};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use rustix::stdio;

use super::descriptors::Descriptors;
use super::signals::Signals;
use super::{Label, Launch, LaunchError};

/// A sink that has this much waiting takes no more for now.
const FULL: usize = 256 << 10;
/// A longer line may be broken, or a rank that never ends its line would fill the memory.
const LONGEST_LINE: usize = 1 << 20;
/// Written at a time: a pipe that is ready for writing takes at least so much without blocking.
const PIECE: usize = 4096;
/// Read at a time.
const CHUNK: usize = 256 << 10;
/// What the pipes of a few ranks hold, so that writer and launcher take turns less often; a user has 64 MiB for all pipes, by
/// default, and 64 KiB for each is what one gets anyhow.
const PIPE: usize = 256 << 10;
const FEW: usize = 64;
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
    /// Which of the sinks a stream goes to, if not to the launcher's descriptor.
    out: Option<usize>,
    err: Option<usize>,
}

struct Sink {
    target: BorrowedFd<'static>,
    labelled: bool,
    /// How much may be written at a time without waiting.
    piece: usize,
    /// All pipes that lead here.
    pipes: OwnedFd,
    /// By the number that `pipes` knows them by; `None` once a pipe has ended.
    sources: Vec<Option<Source>>,
    /// Lines; those before `written` are gone already.
    waiting: Vec<u8>,
    written: usize,
    /// Whose line it is that has no end yet, if the last one has none.
    open: Option<usize>,
    /// Nobody takes what is written here any more.
    broken: bool,
    /// Why, if it is not that the reader has gone.
    failure: Option<io::Error>,
    /// What is being read.
    chunk: Vec<u8>,
}

struct Source {
    pipe: OwnedFd,
    lines: Lines,
}

impl Output {
    pub(super) fn new(launch: &Launch) -> io::Result<Self> {
        let mut output = Self { sinks: Vec::new(), out: None, err: None };
        let asked = launch.label == Label::Always;
        let is_possible = Descriptors::suffice(2 * u64::from(launch.ranks));
        if (launch.unbuffered || !is_possible) && !asked {
            return Ok(output);
        }
        let labelled = |is_terminal: bool| asked || launch.label == Label::Auto && is_terminal;
        let out = output.add_sink(stdio::stdout(), labelled(io::stdout().is_terminal()))?;
        output.out = Some(out);
        output.err = if same_file(stdio::stdout(), stdio::stderr()) {
            Some(out)
        } else {
            Some(output.add_sink(stdio::stderr(), labelled(io::stderr().is_terminal()))?)
        };
        Ok(output)
    }

    fn add_sink(&mut self, target: BorrowedFd<'static>, labelled: bool) -> io::Result<usize> {
        // A file takes everything at once.
        let is_file = fstat(target).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
        self.sinks.push(Sink {
            target,
            labelled,
            piece: if is_file { usize::MAX } else { PIECE },
            pipes: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            sources: Vec::new(),
            waiting: Vec::new(),
            written: 0,
            open: None,
            broken: false,
            failure: None,
            chunk: vec![0; CHUNK],
        });
        Ok(self.sinks.len() - 1)
    }

    /// Why output could not be written, if it could not and it was not for want of a reader.
    pub(super) fn failure(&mut self) -> Option<io::Error> {
        self.sinks.iter_mut().find_map(|sink| sink.failure.take())
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
        if self.sinks[index].sources.len() < FEW {
            // Should it be refused, it is only slower.
            let _ = fcntl_setpipe_size(&writer, PIPE);
        }
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
    pub(super) fn pass_on(&mut self) -> Result<(), LaunchError> {
        for sink in &mut self.sinks {
            if !sink.is_full() {
                sink.read_ready().map_err(LaunchError::system("read the ranks' output"))?;
            }
            sink.write_ready();
        }
        let failure = self.failure();
        failure.map_or(Ok(()), |error| Err(LaunchError::system("write the ranks' output")(error)))
    }

    /// Passes on what ranks that have all ended left in their pipes, without waiting for the pipes to end: a process
    /// that outlives its rank may hold one open for ever. Gives up at `deadline` or when asked to end by a signal,
    /// which it returns.
    pub(super) fn finish(&mut self, signals: &Signals, deadline: Option<Instant>) -> Option<i32> {
        for (number, sink) in self.sinks.iter_mut().enumerate() {
            for index in 0..sink.sources.len() {
                sink.drain(index);
                if sink.is_full()
                    && let Err(signal) = sink.write_all(signals, deadline)
                {
                    return signal;
                }
            }
            // The launcher may have something to say there itself.
            if self.err == Some(number) {
                sink.end_open_line();
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
        let lines = Lines::new(if self.labelled { format!("[{rank}] ") } else { String::new() });
        self.sources.push(Some(Source { pipe, lines }));
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
        let Some(source) = &self.sources[index] else { return 0 };
        let mut chunk = std::mem::take(&mut self.chunk);
        let room = most.min(chunk.len());
        let count = match read(&source.pipe, &mut chunk[..room]) {
            Ok(count @ 1..) => {
                let is_open = self.open == Some(index);
                self.put(index, |lines, out| lines.push(&chunk[..count], is_open, out));
                count
            }
            Err(Errno::INTR) => 0,
            Ok(0) | Err(_) => {
                self.close(index);
                0
            }
        };
        self.chunk = chunk;
        count
    }

    fn close(&mut self, index: usize) {
        self.put(index, Lines::end);
        if let Some(source) = self.sources[index].take() {
            // Closing alone would not do while a process between fork and exec holds the pipe too.
            let _ = epoll::delete(&self.pipes, &source.pipe);
        }
    }

    /// Lets a rank's lines out. If another's last line has no end yet, it gets one first.
    fn put(&mut self, index: usize, pass: impl FnOnce(&mut Lines, &mut Vec<u8>)) {
        let Some(source) = &mut self.sources[index] else { return };
        let before = self.waiting.len();
        pass(&mut source.lines, &mut self.waiting);
        if self.waiting.len() == before {
            return;
        }
        if self.open.is_some_and(|open| open != index) {
            self.waiting.insert(before, b'\n');
        }
        self.open = if self.waiting.ends_with(b"\n") { None } else { Some(index) };
    }

    fn end_open_line(&mut self) {
        if self.open.take().is_some() && !self.broken {
            self.waiting.push(b'\n');
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
            match write(self.target, &rest[..rest.len().min(self.piece)]) {
                Ok(count) => self.written += count,
                Err(Errno::INTR | Errno::AGAIN) => return,
                Err(error) => {
                    self.failure = (error != Errno::PIPE).then(|| error.into());
                    self.give_up();
                }
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

/// Cuts what one rank writes to one stream into lines, and labels them if there is a label.
struct Lines {
    label: String,
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
}

impl Lines {
    fn new(label: String) -> Self {
        Self { label, begun: Vec::new() }
    }

    /// `is_open`: the beginning of this rank's line is out already, and no other's has come after it.
    fn push(&mut self, bytes: &[u8], is_open: bool, out: &mut Vec<u8>) {
        if self.label.is_empty() {
            return self.push_plain(bytes, is_open, out);
        }
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

    /// Without labels all whole lines go at once, and so does what follows the beginning of a line that is out.
    fn push_plain(&mut self, bytes: &[u8], is_open: bool, out: &mut Vec<u8>) {
        let whole = behind_last_line(bytes);
        if whole == 0 && is_open && self.begun.is_empty() {
            return out.extend_from_slice(bytes);
        }
        if whole > 0 {
            self.line(&bytes[..whole], out);
        }
        self.begun.extend_from_slice(&bytes[whole..]);
        if self.begun.len() >= LONGEST_LINE {
            self.line(b"", out);
        }
    }

    /// The stream has ended. A last line without an end gets one if it has a label.
    fn end(&mut self, out: &mut Vec<u8>) {
        if !self.begun.is_empty() {
            self.line(if self.label.is_empty() { b"" } else { b"\n" }, out);
        }
    }

    fn line(&mut self, rest: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(self.label.as_bytes());
        out.append(&mut self.begun);
        if self.begun.capacity() > CHUNK {
            self.begun.shrink_to(PIECE);
        }
        out.extend_from_slice(rest);
    }
}

/// How many bytes whole lines have at the beginning of these.
fn behind_last_line(bytes: &[u8]) -> usize {
    // Byte by byte this would be most of the time that binary output takes.
    // SAFETY: looks at as many bytes as there are.
    let last = unsafe { libc::memrchr(bytes.as_ptr().cast(), i32::from(b'\n'), bytes.len()) };
    if last.is_null() { 0 } else { last as usize - bytes.as_ptr() as usize + 1 }
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
        let (mut lines, mut out) = (Lines::new("[7] ".into()), Vec::new());
        for piece in pieces {
            lines.push(piece, false, &mut out);
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

    /// What goes to a sink without labels if these ranks write these pieces in this order.
    fn mixed(pieces: &[(usize, &[u8])]) -> Vec<u8> {
        let mut output = Output { sinks: Vec::new(), out: None, err: None };
        let sink = output.add_sink(stdio::stdout(), false).unwrap();
        let sink = &mut output.sinks[sink];
        let ranks = pieces.iter().map(|(rank, _)| rank + 1).max().unwrap_or(0);
        for rank in 0..ranks {
            sink.add_source(pipe_with(PipeFlags::CLOEXEC).unwrap().0, rank as u32).unwrap();
        }
        for (rank, piece) in pieces {
            let is_open = sink.open == Some(*rank);
            sink.put(*rank, |lines, out| lines.push(piece, is_open, out));
        }
        (0..ranks).for_each(|rank| sink.close(rank));
        std::mem::take(&mut sink.waiting)
    }

    #[test]
    fn lines_without_labels_are_whole() {
        assert_eq!(mixed(&[(0, b"a"), (1, b"b"), (0, b"a\na"), (1, b"b\n")]), b"aa\nbb\na");
        assert_eq!(
            mixed(&[(0, b"a"), (1, b"b"), (2, b"c\n")]),
            b"c\na\nb",
            "the last lines have an end if one follows"
        );
    }

    #[test]
    fn a_stream_without_labels_comes_out_byte_for_byte() {
        let data: Vec<u8> = (0..3_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8 | 0x10).collect();
        assert!(!data.contains(&b'\n'));
        let pieces: Vec<(usize, &[u8])> = data.chunks(70_001).map(|piece| (0, piece)).collect();
        assert!(mixed(&pieces) == data);
        let long = vec![b'x'; LONGEST_LINE];
        let broken = mixed(&[(0, &long), (0, b"x"), (1, b"y\n"), (0, b"x"), (1, b"y\n"), (0, b"x\n")]);
        assert_eq!(&broken[long.len()..], b"x\ny\ny\nxx\n", "a longer line goes on at once until another follows it");
    }
}
