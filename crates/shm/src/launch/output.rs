//! Forwards the ranks' output from their pipes to the launcher's output: in whole lines, and with labels where those
//! are wanted.
//!
//! Without labels, what one rank writes to one stream is forwarded byte for byte, as long as no other rank's line comes
//! between: a line that has no end, or is longer than [`MAX_LINE`], gets one only where another line follows it.
//!
//! A [`Sink`] is a destination of output; standard output and standard error are one sink when both are the same
//! terminal or file, so that a line is never broken by another. A sink's buffer is bounded: while it is full, its pipes
//! are not read, and ranks that write more wait as they would for a slow terminal. Nothing here blocks, so that the
//! launcher can always end the job.

use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::{Errno, ioctl_fionread, read, write};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use rustix::stdio;

use super::fd_limit::FdLimit;
use super::signals::Signals;
use super::{LabelMode, Launch, LaunchError};

/// A sink with this much pending output reads no more for now.
const HIGH_WATERMARK: usize = 256 << 10;
/// A longer line may be broken; otherwise a rank that never ends its line would fill the memory.
const MAX_LINE: usize = 1 << 20;
/// Bytes per write: a pipe that is ready for writing takes at least this much without blocking.
const WRITE_CHUNK: usize = 4096;
/// Bytes per read.
const READ_CHUNK: usize = 256 << 10;
/// Capacity of the pipes of a few ranks, so that writer and launcher alternate less often; a user has 64 MiB for all
/// pipes by default, and 64 KiB is the default of each.
const LARGE_PIPE: usize = 256 << 10;
const MAX_LARGE_PIPES: usize = 64;
const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// The two streams of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Out,
    Err,
}

/// Forwards what ranks write; has no sinks when they write to the launcher's descriptors themselves.
pub(super) struct OutputForwarder {
    sinks: Vec<Sink>,
    /// The sink of a stream, if not the launcher's descriptor.
    out: Option<usize>,
    err: Option<usize>,
}

struct Sink {
    target: BorrowedFd<'static>,
    labelled: bool,
    /// Bytes that may be written at a time without blocking.
    write_chunk: usize,
    /// The epoll descriptor of all pipes of this sink.
    pipes: OwnedFd,
    /// By their number in `pipes`; `None` once a pipe is closed.
    sources: Vec<Option<Source>>,
    /// Lines; those before `written` are already written.
    pending: Vec<u8>,
    written: usize,
    /// The source of the last line, if that has no end yet.
    open_line: Option<usize>,
    /// The reader has closed the output, or writing failed.
    broken: bool,
    /// The error, if it is not that the reader has closed.
    failure: Option<io::Error>,
    /// The read buffer.
    chunk: Vec<u8>,
}

struct Source {
    pipe: OwnedFd,
    lines: LineBuffer,
}

impl OutputForwarder {
    pub(super) fn new(launch: &Launch) -> io::Result<Self> {
        let mut output = Self { sinks: Vec::new(), out: None, err: None };
        let asked = launch.label == LabelMode::Always;
        let is_possible = FdLimit::is_sufficient_for(2 * u64::from(launch.ranks));
        if (launch.unbuffered || !is_possible) && !asked {
            return Ok(output);
        }
        let labelled = |is_terminal: bool| asked || launch.label == LabelMode::Auto && is_terminal;
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
        // A regular file accepts any amount at once.
        let is_file = fstat(target).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
        self.sinks.push(Sink {
            target,
            labelled,
            write_chunk: if is_file { usize::MAX } else { WRITE_CHUNK },
            pipes: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            sources: Vec::new(),
            pending: Vec::new(),
            written: 0,
            open_line: None,
            broken: false,
            failure: None,
            chunk: vec![0; READ_CHUNK],
        });
        Ok(self.sinks.len() - 1)
    }

    /// Takes the error of a failed write, other than a closed reader.
    pub(super) fn failure(&mut self) -> Option<io::Error> {
        self.sinks.iter_mut().find_map(|sink| sink.failure.take())
    }

    /// The number of pipes of each rank.
    pub(super) fn pipes_per_rank(&self) -> u64 {
        u64::from(self.out.is_some()) + u64::from(self.err.is_some())
    }

    /// The write end of a new pipe for this stream of `rank`, or none if it writes to the launcher's descriptor.
    pub(super) fn pipe(&mut self, rank: u32, stream: Stream) -> io::Result<Option<OwnedFd>> {
        let index = match stream {
            Stream::Out => self.out,
            Stream::Err => self.err,
        };
        let Some(index) = index else { return Ok(None) };
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        if self.sinks[index].sources.len() < MAX_LARGE_PIPES {
            // If it fails, output is only slower.
            let _ = fcntl_setpipe_size(&writer, LARGE_PIPE);
        }
        self.sinks[index].add_source(reader, rank)?;
        Ok(Some(writer))
    }

    /// Adds the descriptors to poll before [`forward`](Self::forward).
    pub(super) fn push_poll_fds<'a>(&'a self, list: &mut Vec<PollFd<'a>>) {
        for sink in &self.sinks {
            if !sink.is_full() && !sink.broken {
                list.push(PollFd::new(&sink.pipes, PollFlags::IN));
            }
            if sink.has_pending() {
                list.push(PollFd::new(&sink.target, PollFlags::OUT));
            }
        }
    }

    /// Reads and writes what can be read and written now.
    pub(super) fn forward(&mut self) -> Result<(), LaunchError> {
        for sink in &mut self.sinks {
            if !sink.is_full() {
                sink.read_ready().map_err(LaunchError::system("read the ranks' output"))?;
            }
            sink.write_ready();
        }
        let failure = self.failure();
        failure.map_or(Ok(()), |error| Err(LaunchError::system("write the ranks' output")(error)))
    }

    /// Forwards what exited ranks left in their pipes, without waiting for the pipes to close: a process that outlives
    /// its rank may hold one open for ever. Stops at `deadline` or on a termination signal, which it returns.
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
            // The launcher may print a message there itself.
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
        self.pending.len() - self.written >= HIGH_WATERMARK
    }

    fn has_pending(&self) -> bool {
        self.written < self.pending.len()
    }

    fn add_source(&mut self, pipe: OwnedFd, rank: u32) -> io::Result<()> {
        if self.broken {
            // The rank gets the same error as if it wrote to the target itself.
            return Ok(());
        }
        let number = epoll::EventData::new_u64(self.sources.len() as u64);
        epoll::add(&self.pipes, &pipe, number, epoll::EventFlags::IN)?;
        let lines = LineBuffer::new(if self.labelled { format!("[{rank}] ") } else { String::new() });
        self.sources.push(Some(Source { pipe, lines }));
        Ok(())
    }

    /// Reads once from each of some ready pipes.
    fn read_ready(&mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(16);
        match epoll::wait(&self.pipes, rustix::buffer::spare_capacity(&mut events), Some(&NO_WAIT)) {
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

    /// Reads at most `most` bytes that are known to be available, or the end of the pipe. Returns the number of bytes
    /// read.
    fn read_once(&mut self, index: usize, most: usize) -> usize {
        let Some(source) = &self.sources[index] else { return 0 };
        let mut chunk = std::mem::take(&mut self.chunk);
        let room = most.min(chunk.len());
        let count = match read(&source.pipe, &mut chunk[..room]) {
            Ok(count @ 1..) => {
                let is_open = self.open_line == Some(index);
                self.append(index, |lines, out| lines.push(&chunk[..count], is_open, out));
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
        self.append(index, LineBuffer::finish);
        if let Some(source) = self.sources[index].take() {
            // Closing is not enough while a process between fork and exec holds the pipe too.
            let _ = epoll::delete(&self.pipes, &source.pipe);
        }
    }

    /// Appends a rank's lines to the output. If another's last line has no end yet, it gets one first.
    fn append(&mut self, index: usize, pass: impl FnOnce(&mut LineBuffer, &mut Vec<u8>)) {
        let Some(source) = &mut self.sources[index] else { return };
        let before = self.pending.len();
        pass(&mut source.lines, &mut self.pending);
        if self.pending.len() == before {
            return;
        }
        if self.open_line.is_some_and(|open| open != index) {
            self.pending.insert(before, b'\n');
        }
        self.open_line = if self.pending.ends_with(b"\n") { None } else { Some(index) };
    }

    fn end_open_line(&mut self) {
        if self.open_line.take().is_some() && !self.broken {
            self.pending.push(b'\n');
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
        while self.has_pending() && !self.broken {
            let mut ready = [PollFd::new(&self.target, PollFlags::OUT)];
            if !matches!(poll(&mut ready, Some(&NO_WAIT)), Ok(1)) {
                return;
            }
            let rest = &self.pending[self.written..];
            match write(self.target, &rest[..rest.len().min(self.write_chunk)]) {
                Ok(count) => self.written += count,
                Err(Errno::INTR | Errno::AGAIN) => return,
                Err(error) => {
                    self.failure = (error != Errno::PIPE).then(|| error.into());
                    self.mark_broken();
                }
            }
        }
        if !self.has_pending() || self.written >= HIGH_WATERMARK {
            self.pending.drain(..self.written);
            self.written = 0;
        }
    }

    /// Marks the sink as closed: the ranks see the same, by a pipe without a reader.
    fn mark_broken(&mut self) {
        self.broken = true;
        self.sources.fill_with(|| None);
        self.pending.clear();
        self.written = 0;
    }

    /// Writes all pending output; the error is the signal, or none at the deadline.
    fn write_all(&mut self, signals: &Signals, deadline: Option<Instant>) -> Result<(), Option<i32>> {
        loop {
            self.write_ready();
            if !self.has_pending() {
                return Ok(());
            }
            let timeout = match deadline {
                None => None,
                Some(deadline) if deadline <= Instant::now() => return Err(None),
                Some(deadline) => Timespec::try_from(deadline - Instant::now()).ok(),
            };
            let mut list = [PollFd::new(&self.target, PollFlags::OUT), PollFd::new(signals, PollFlags::IN)];
            let _ = poll(&mut list, timeout.as_ref());
            let asked = signals.take().into_iter().find(|&signal| super::signals::is_termination_request(signal));
            if asked.is_some() {
                return Err(asked);
            }
        }
    }
}

/// Splits what one rank writes to one stream into lines, and labels them if there is a label.
struct LineBuffer {
    label: String,
    /// The beginning of an unfinished line.
    partial: Vec<u8>,
}

impl LineBuffer {
    fn new(label: String) -> Self {
        Self { label, partial: Vec::new() }
    }

    /// `is_open`: the beginning of this rank's line is already written, and no other's follows it.
    fn push(&mut self, bytes: &[u8], is_open: bool, out: &mut Vec<u8>) {
        if self.label.is_empty() {
            return self.push_unlabelled(bytes, is_open, out);
        }
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            if piece.ends_with(b"\n") {
                self.emit_line(piece, out);
            } else {
                self.partial.extend_from_slice(piece);
                if self.partial.len() >= MAX_LINE {
                    self.emit_line(b"\n", out);
                }
            }
        }
    }

    /// Without labels all whole lines are written at once, and so is what continues a line already begun.
    fn push_unlabelled(&mut self, bytes: &[u8], is_open: bool, out: &mut Vec<u8>) {
        let whole = complete_lines_len(bytes);
        if whole == 0 && is_open && self.partial.is_empty() {
            return out.extend_from_slice(bytes);
        }
        if whole > 0 {
            self.emit_line(&bytes[..whole], out);
        }
        self.partial.extend_from_slice(&bytes[whole..]);
        if self.partial.len() >= MAX_LINE {
            self.emit_line(b"", out);
        }
    }

    /// Ends the stream. A last line without an end gets one if it has a label.
    fn finish(&mut self, out: &mut Vec<u8>) {
        if !self.partial.is_empty() {
            self.emit_line(if self.label.is_empty() { b"" } else { b"\n" }, out);
        }
    }

    fn emit_line(&mut self, rest: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(self.label.as_bytes());
        out.append(&mut self.partial);
        if self.partial.capacity() > READ_CHUNK {
            self.partial.shrink_to(WRITE_CHUNK);
        }
        out.extend_from_slice(rest);
    }
}

/// The length of the whole lines at the beginning of `bytes`.
fn complete_lines_len(bytes: &[u8]) -> usize {
    // Byte by byte this would be most of the time that binary output takes.
    // SAFETY: reads the given number of bytes, which are initialized.
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
        let (mut lines, mut out) = (LineBuffer::new("[7] ".into()), Vec::new());
        for piece in pieces {
            lines.push(piece, false, &mut out);
        }
        lines.finish(&mut out);
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
        let nearly = vec![b'x'; MAX_LINE - 1];
        assert_eq!(labelled(&[&nearly, b"y\n"]).lines().count(), 1);
        let longer = vec![b'x'; MAX_LINE];
        let broken = labelled(&[&longer, b"y\n"]);
        assert_eq!(broken.lines().map(|line| line.len()).collect::<Vec<_>>(), [MAX_LINE + 4, 5]);
    }

    /// The output of a sink without labels if these ranks write these pieces in this order.
    fn mixed(pieces: &[(usize, &[u8])]) -> Vec<u8> {
        let mut output = OutputForwarder { sinks: Vec::new(), out: None, err: None };
        let sink = output.add_sink(stdio::stdout(), false).unwrap();
        let sink = &mut output.sinks[sink];
        let ranks = pieces.iter().map(|(rank, _)| rank + 1).max().unwrap_or(0);
        for rank in 0..ranks {
            sink.add_source(pipe_with(PipeFlags::CLOEXEC).unwrap().0, rank as u32).unwrap();
        }
        for (rank, piece) in pieces {
            let is_open = sink.open_line == Some(*rank);
            sink.append(*rank, |lines, out| lines.push(piece, is_open, out));
        }
        (0..ranks).for_each(|rank| sink.close(rank));
        std::mem::take(&mut sink.pending)
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
        let long = vec![b'x'; MAX_LINE];
        let broken = mixed(&[(0, &long), (0, b"x"), (1, b"y\n"), (0, b"x"), (1, b"y\n"), (0, b"x\n")]);
        assert_eq!(&broken[long.len()..], b"x\ny\ny\nxx\n", "a longer line goes on at once until another follows it");
    }
}
