//! Cartesian topologies: communicators whose ranks form a grid.
//!
//! The last coordinate varies fastest (row-major), as in MPI. Everything but the creation is local arithmetic.

use std::ops::Deref;

use treepie_base::{Error, Pod, Rank, Result, Status, Tag};

use crate::comm::Comm;
use crate::split::group_digest;

/// A communicator with a Cartesian topology.
#[derive(Clone, Debug)]
pub struct Cartesian {
    comm: Comm,
    dims: Vec<usize>,
    periodic: Vec<bool>,
}

impl Deref for Cartesian {
    type Target = Comm;

    fn deref(&self) -> &Comm {
        &self.comm
    }
}

impl Comm {
    /// A communicator with a Cartesian topology of the given dimensions, each periodic or not (`MPI_Cart_create`
    /// without reordering). It has the first ranks of this one. All ranks call it; ranks outside of the grid get
    /// `None`. [`dims_create`](crate::dims_create) balances dimensions.
    ///
    /// # Errors
    /// If the grid is larger than the communicator, a dimension is 0, or `dims` and `periodic` differ in length; on the
    /// ranks of the grid, if they do not agree.
    pub fn cart_create(&self, dims: &[usize], periodic: &[bool]) -> Result<Option<Cartesian>> {
        let _compared = self.compare_split_call(|| format!("cart_create of {dims:?} {periodic:?}"))?;
        // Ranks that request another grid must neither wait for this rank nor get into its grid.
        let requested = grid_size(dims, periodic, self.size());
        let is_member = requested.as_ref().is_ok_and(|size| self.rank() < *size);
        let color = is_member.then(|| color_of(dims, periodic));
        let comm = self.split(color, 0)?;
        let size = requested?;
        let Some(comm) = comm else { return Ok(None) };
        if comm.size() != size {
            let grid = shape(dims);
            return Err(Error::Algorithm(format!(
                "only {} of the {size} ranks of a grid of {grid} request it",
                comm.size()
            )));
        }
        Ok(Some(Cartesian { comm, dims: dims.to_vec(), periodic: periodic.to_vec() }))
    }
}

impl Cartesian {
    /// Number of ranks along each dimension.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// Whether each dimension is periodic.
    pub fn periodic(&self) -> &[bool] {
        &self.periodic
    }

    /// Coordinates of a rank (`MPI_Cart_coords`).
    ///
    /// # Errors
    /// If there is no such rank.
    pub fn coords(&self, rank: Rank) -> Result<Vec<usize>> {
        self.check_rank(rank)?;
        let mut coords = self.dims.clone();
        let mut left = rank;
        for coordinate in coords.iter_mut().rev() {
            let side = *coordinate;
            *coordinate = left % side;
            left /= side;
        }
        Ok(coords)
    }

    /// The rank at these coordinates (`MPI_Cart_rank`). Coordinates outside of the grid wrap around in a periodic
    /// dimension; in any other dimension there is no rank there.
    ///
    /// # Panics
    /// If the number of coordinates is not the number of dimensions.
    pub fn rank_at(&self, coords: &[isize]) -> Option<Rank> {
        assert_eq!(coords.len(), self.dims.len(), "one coordinate for each dimension of the grid");
        let sides = self.dims.iter().zip(&self.periodic);
        sides.zip(coords).try_fold(0, |rank, ((side, periodic), coordinate)| {
            let within = if *periodic { coordinate.rem_euclid(*side as isize) } else { *coordinate };
            let within = usize::try_from(within).ok().filter(|within| within < side)?;
            Some(rank * side + within)
        })
    }

    /// Source and destination of a shift by `by` ranks along a dimension (`MPI_Cart_shift`); `None` beyond an edge.
    ///
    /// # Panics
    /// If there is no such dimension.
    pub fn shift(&self, dimension: usize, by: isize) -> (Option<Rank>, Option<Rank>) {
        let (side, periodic) = (self.dims[dimension] as isize, self.periodic[dimension]);
        let mut at: Vec<isize> = self.own_coords().into_iter().map(|coordinate| coordinate as isize).collect();
        let own = at[dimension];
        // In a periodic dimension the remainder suffices; in others an overflow is beyond the edge anyway.
        let by = if periodic { by % side } else { by };
        let mut towards = |there: Option<isize>| {
            at[dimension] = there?;
            self.rank_at(&at)
        };
        (towards(own.checked_sub(by)), towards(own.checked_add(by)))
    }

    /// [`sendrecv`](Comm::sendrecv) with the ranks of a [`shift`](Self::shift): sends `data` by `by` ranks along a
    /// dimension, and receives into `into` from as far on the other side. Beyond an edge (`MPI_PROC_NULL`) nothing is
    /// sent; without a source, `into` stays as it is, and there is no status.
    ///
    /// # Panics
    /// If there is no such dimension.
    pub fn sendrecv_shift<T: Pod>(
        &self,
        data: &[T],
        into: &mut [T],
        dimension: usize,
        by: isize,
        tag: Tag,
    ) -> Result<Option<Status>> {
        match self.shift(dimension, by) {
            (Some(source), Some(destination)) => self.sendrecv(data, destination, tag, into, source, tag).map(Some),
            (Some(source), None) => self.recv(into, source, tag).map(Some),
            (None, Some(destination)) => self.send(data, destination, tag).map(|()| None),
            (None, None) => Ok(None),
        }
    }

    /// The nearest neighbors: for each dimension the rank before and the rank after, `None` beyond an edge. In a
    /// periodic dimension of size 2 both are the same rank, in one of size 1 both are this rank.
    pub fn neighbors(&self) -> Vec<Option<Rank>> {
        (0..self.dims.len())
            .map(|dimension| self.shift(dimension, 1))
            .flat_map(|(before, after)| [before, after])
            .collect()
    }

    /// The subgrid of this rank that keeps these dimensions, for example its row or column of a plane (`MPI_Cart_sub`).
    /// All ranks call it with the same `keep`.
    ///
    /// # Errors
    /// If `keep` does not have one entry for each dimension, or the ranks of a subgrid differ in `keep`.
    pub fn sub(&self, keep: &[bool]) -> Result<Cartesian> {
        let _compared = self.comm.compare_split_call(|| format!("sub keeping {keep:?}"))?;
        let requested = self.check_length("the list of dimensions to keep", keep);
        let kept = |which: bool| {
            keep.iter().zip(0..self.dims.len()).filter(move |(keep, _)| **keep == which).map(|(_, at)| at)
        };
        let coords = self.own_coords();
        let index = |which: bool| kept(which).fold(0, |index, at| index * self.dims[at] + coords[at]);
        let color = requested.is_ok().then(|| self.subgrid_color(keep, &coords).unwrap_or(index(false) as u32));
        let comm = self.comm.split(color, 0)?;
        requested?;
        let comm = comm.expect("it has a color");
        let dims: Vec<usize> = kept(true).map(|at| self.dims[at]).collect();
        if (comm.size(), comm.rank()) != (dims.iter().product(), index(true)) {
            return Err(Error::Algorithm(format!(
                "ranks keep different dimensions of a grid of {}",
                shape(&self.dims)
            )));
        }
        Ok(Cartesian { comm, dims, periodic: kept(true).map(|at| self.periodic[at]).collect() })
    }

    /// A color for each subgrid of each choice of `keep`, so that ranks which keep different dimensions do not share a
    /// communicator: a mixed-radix number with a digit for each dimension, whose highest value marks a kept dimension.
    /// `None` if that overflows.
    fn subgrid_color(&self, keep: &[bool], coords: &[usize]) -> Option<u32> {
        let bases = self.dims.iter().map(|side| u32::try_from(side + 1).ok());
        bases.clone().try_fold(1, |numbers: u32, base| numbers.checked_mul(base?))?;
        let digits = keep.iter().zip(coords).zip(&self.dims).map(|((keep, at), side)| if *keep { side } else { at });
        bases.zip(digits).try_fold(0, |number, (base, digit)| Some(number * base? + *digit as u32))
    }

    fn own_coords(&self) -> Vec<usize> {
        self.coords(self.rank()).expect("this rank exists")
    }

    fn check_length<T>(&self, what: &'static str, list: &[T]) -> Result<()> {
        check_length(what, list.len(), self.dims.len())
    }
}

fn check_length(what: &'static str, got: usize, expected: usize) -> Result<()> {
    if got == expected { Ok(()) } else { Err(Error::BadLength { what, got, expected }) }
}

/// Number of ranks of a grid. Fails if the communicator is too small for it.
fn grid_size(dims: &[usize], periodic: &[bool], ranks: usize) -> Result<usize> {
    check_length("the list of periodic dimensions", periodic.len(), dims.len())?;
    let size = dims.iter().fold(1, |size: usize, side| size.saturating_mul(*side));
    if dims.contains(&0) {
        return Err(Error::Algorithm(format!("a grid of {} is empty", shape(dims))));
    }
    if size > ranks {
        let grid = shape(dims);
        return Err(Error::Algorithm(format!("a grid of {grid} needs more than the {ranks} ranks")));
    }
    Ok(size)
}

/// The dimensions as text, for error messages.
fn shape(dims: &[usize]) -> String {
    if dims.is_empty() {
        return "no dimensions".to_owned();
    }
    dims.iter().map(usize::to_string).collect::<Vec<_>>().join("x")
}

/// The same color for ranks that request the same grid, and almost surely another color for others.
fn color_of(dims: &[usize], periodic: &[bool]) -> u32 {
    let list: Vec<usize> = dims.iter().copied().chain(periodic.iter().map(|is| usize::from(*is))).collect();
    let digest = group_digest(&list);
    (digest >> 32) as u32 ^ digest as u32
}
