//! Writes a graph to a file, each rank its own rows.
//!
//! Rows lie in the file in the order of vertices inside. Where that is not the order of names, though names are
//! numbers, the graph is built once more, in blocks, and that one is written.

use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use treepie_base::AtomicFile;
use treepie_base::memory::zeroed;
use treepie_comm::{Comm, Max, Xor};

use super::{BLOCK, Head, Section, checksum, sum_of};
use crate::agree::agree;
use crate::mix::digest;
use crate::rows::VALUES;
use crate::rows::{Arc, Weight};
use crate::{Edge, Edges, Error, Graph, Orientation, Result, Shape, Weights};

impl<A: Arc> Graph<A> {
    /// Writes the graph to a file, from which [`Files`](crate::Files) has it again, on any number of ranks. `weights`
    /// is what its weights are; if there are none, those of arcs are not written. What was in the file is replaced when
    /// all is written, and stays as it is if that fails. All ranks call it, and see the same directory.
    pub fn save(&self, comm: &Comm, file: &Path, weights: Weights) -> Result<()> {
        if weights != Weights::None && !A::WEIGHTED {
            return Err(Error::Input("weights of a graph without weights cannot be saved".to_owned()));
        }
        self.need_whole_rows("a file")?;
        let layout = self.layout();
        let own_names = (0..self.own()).map(|place| layout.name(place));
        let beyond = own_names.clone().max().map_or(0, |most| most.saturating_add(1));
        let [beyond, unordered] = {
            let is_other = own_names.zip(layout.first(layout.rank())..).any(|(name, number)| name != number);
            let most = comm.all_reduce(&[beyond, u64::from(is_other)], Max)?;
            [most[0], most[1]]
        };
        // As many different names as numbers below that.
        let listed = beyond > self.vertices();
        let names = self.names_seen(comm)?;
        let wide = beyond > 1 << 32;
        let (vertices, arcs) = (self.vertices(), self.arcs());
        let head = Head { vertices, arcs, weights, symmetric: self.is_symmetric(), listed, wide };
        if unordered == 0 || listed {
            return write(comm, self, &names, &head, file);
        }
        let whole_weights = weights == Weights::Whole;
        let shape = Shape { whole_weights, ..Shape::default() };
        let blocks = Self::build(comm, &Own { graph: self, names: &names, weights }, &shape)?;
        let names = blocks.names_seen(comm)?;
        write(comm, &blocks, &names, &head, file)
    }

    /// The name of the vertex at each place of the view. All ranks call it.
    fn names_seen(&self, comm: &Comm) -> Result<Vec<u64>> {
        let mut names = zeroed(self.view().len(), VALUES)?;
        self.view().own().enumerate().for_each(|(index, place)| names[place] = self.layout().name(index));
        self.view().gather(comm, &mut names)?;
        Ok(names)
    }
}

/// The arcs of a graph as edges: each rank has its own.
struct Own<'a, A> {
    graph: &'a Graph<A>,
    names: &'a [u64],
    weights: Weights,
}

impl<A: Arc> Edges for Own<'_, A> {
    fn vertices(&self) -> Option<u64> {
        Some(self.graph.vertices())
    }

    fn orientation(&self) -> Orientation {
        Orientation::Directed
    }

    fn weights(&self) -> Weights {
        self.weights
    }

    fn part(&self, _: usize, _: usize, sink: &mut dyn FnMut(&[Edge])) -> Result<()> {
        let mut outlet = crate::outlet::Outlet::new(sink);
        for row in 0..self.graph.own() {
            let from = self.graph.layout().name(row);
            for arc in self.graph.out().row(row) {
                let weight = match self.weights {
                    Weights::None => 1.0,
                    Weights::Whole => f64::from(arc.bits()),
                    Weights::Real => <f32 as Weight>::from_bits(arc.bits()).as_f64(),
                };
                outlet.put(Edge { from, to: self.names[arc.target() as usize], weight });
            }
        }
        outlet.finish();
        Ok(())
    }
}

/// Writes a graph into a file that appears when it is complete. All ranks call it.
fn write<A: Arc>(comm: &Comm, graph: &Graph<A>, names: &[u64], head: &Head, file: &Path) -> Result<()> {
    let failed = |error: io::Error| Error::File { file: file.to_owned(), why: error.to_string() };
    let is_first = comm.rank() == 0;
    let counts = comm.all_gather(&[graph.out().arcs()])?;
    let before: u64 = counts[..comm.rank()].iter().sum();
    let (whole, own) = open(comm, file, head)?;

    let rows = || -> io::Result<Vec<u64>> {
        let mut out = Output::new(own, head);
        write_rows(&mut out, graph, names, head, before)?;
        if is_first {
            head.filled_up().for_each(|word| out.sums[(4 * word / BLOCK) as usize] ^= sum_of(word, 0));
        }
        out.file.sync_all()?;
        Ok(out.sums)
    };
    let mut sums = agree(comm, rows().map_err(failed))?;
    comm.all_reduce_in_place(&mut sums, Xor)?;
    let placed = whole.map_or(Ok(()), |whole| finish(whole, &head.written(&sums)));
    agree(comm, placed.map_err(failed))
}

/// A file of the right length that all ranks have open, and which the first is to put in its place. All ranks call it.
///
/// If all are on one machine it has no name yet, so nothing is left of it however they end. Ranks elsewhere need a name.
fn open(comm: &Comm, file: &Path, head: &Head) -> Result<(Option<AtomicFile>, File)> {
    let failed = |error: io::Error| Error::File { file: file.to_owned(), why: error.to_string() };
    let is_first = comm.rank() == 0;
    let mut attempts = [AtomicFile::create, AtomicFile::create_named].into_iter().peekable();
    while let Some(create) = attempts.next() {
        let begun = if is_first { begin(create(file), head).map(Some) } else { Ok(None) };
        let begun = agree(comm, begun.map_err(failed))?;
        let path = shared(comm, begun.as_ref().map(|(whole, _)| whole.path()).unwrap_or_default())?;
        let mut mark = [begun.as_ref().map_or(0, |(_, mark)| *mark)];
        comm.bcast(&mut mark, 0)?;
        let own = File::options().read(true).write(true).open(&path).and_then(|own| marked(own, mark[0]));
        let whole = begun.map(|(whole, _)| whole);
        let is_missed = comm.all_reduce(&[u64::from(own.is_err())], Max)?[0] == 1;
        if !is_missed || attempts.peek().is_none() {
            return agree(comm, own.map_err(failed)).map(|own| (whole, own));
        }
    }
    unreachable!("the last attempt returns")
}

/// Makes room for the file, and marks it: on another machine the same path may lead to another one.
fn begin(file: io::Result<AtomicFile>, head: &Head) -> io::Result<(AtomicFile, u64)> {
    let file = file?;
    if !file.is_regular() {
        return Err(io::Error::other("not a regular file, and ranks write parts of it"));
    }
    file.file().set_len(head.bytes().ok_or_else(|| io::Error::other("a file cannot be so long"))?)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let mark = digest([now, std::process::id().into()]);
    // The head comes last, and until then its place is free.
    file.file().write_all_at(&mark.to_le_bytes(), 0)?;
    Ok((file, mark))
}

/// The file, if it is the one that the first rank has begun.
fn marked(file: File, mark: u64) -> io::Result<File> {
    let mut found = [0; 8];
    file.read_exact_at(&mut found, 0)?;
    let is_it = u64::from_le_bytes(found) == mark;
    is_it.then_some(file).ok_or_else(|| io::Error::other("ranks see different files under the same path"))
}

/// The head makes a file of it.
fn finish(file: AtomicFile, head: &[u8]) -> io::Result<()> {
    file.file().write_all_at(head, 0)?;
    file.commit().map(drop)
}

/// The first rank's path. All ranks call it.
fn shared(comm: &Comm, path: PathBuf) -> Result<PathBuf> {
    let mut length = [path.as_os_str().len() as u64];
    comm.bcast(&mut length, 0)?;
    let mut bytes = path.as_os_str().as_bytes().to_vec();
    bytes.resize(length[0] as usize, 0);
    comm.bcast(&mut bytes, 0)?;
    Ok(std::ffi::OsString::from_vec(bytes).into())
}

/// Writes the rows of this rank, before which there are so many arcs of others.
fn write_rows<A: Arc>(out: &mut Output, graph: &Graph<A>, names: &[u64], head: &Head, before: u64) -> io::Result<()> {
    let (layout, rows) = (graph.layout(), graph.out());
    let first = layout.first(layout.rank());
    let mut offsets = Stretch::new(head, Section::Offsets, first);
    let mut targets = Stretch::new(head, Section::Targets, before);
    let mut weights = Stretch::new(head, Section::Weights, before);
    let mut listed = Stretch::new(head, Section::Names, first);
    let mut offset = before;
    let mut sorted: Vec<(u64, u32)> = Vec::new();
    for row in 0..rows.len() {
        offsets.put(out, offset)?;
        offset += rows.degree(row);
        if head.listed {
            listed.put(out, layout.name(row))?;
        }
        sorted.clear();
        sorted.extend(rows.row(row).iter().map(|arc| (names[arc.target() as usize], arc.bits())));
        // One or two stretches in order, mostly: this sort finds that out.
        sorted.sort();
        for (to, bits) in &sorted {
            targets.put(out, *to)?;
            if head.weights != Weights::None {
                weights.put(out, u64::from(*bits))?;
            }
        }
    }
    if layout.rank() + 1 == layout.ranks() {
        offsets.put(out, offset)?;
    }
    [offsets, targets, weights, listed].iter_mut().try_for_each(|stretch| stretch.flush(out))
}

/// A file that is written, and what this rank knows of its checksums.
struct Output {
    file: File,
    start: u64,
    sums: Vec<u64>,
}

impl Output {
    fn new(file: File, head: &Head) -> Self {
        Self { file, start: head.start(), sums: vec![0; head.blocks() as usize] }
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let at = at + (bytes.len() - rest.len()) as u64;
            let (now, later) = rest.split_at(rest.len().min((BLOCK - at % BLOCK) as usize));
            self.sums[(at / BLOCK) as usize] ^= checksum(at, now);
            rest = later;
        }
        self.file.write_all_at(bytes, self.start + at)
    }
}

/// Numbers of one part of the file on their way to it.
struct Stretch {
    /// Where in the body the buffer goes.
    at: u64,
    width: usize,
    buffer: Vec<u8>,
}

impl Stretch {
    fn new(head: &Head, section: Section, index: u64) -> Self {
        Self { at: head.at(section, index), width: head.width(section) as usize, buffer: Vec::new() }
    }

    #[inline]
    fn put(&mut self, out: &mut Output, number: u64) -> io::Result<()> {
        self.buffer.extend_from_slice(&number.to_le_bytes()[..self.width]);
        if self.buffer.len() as u64 >= BLOCK { self.flush(out) } else { Ok(()) }
    }

    fn flush(&mut self, out: &mut Output) -> io::Result<()> {
        out.write(self.at, &self.buffer)?;
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}
