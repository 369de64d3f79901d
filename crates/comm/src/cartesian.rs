//! Communicators whose ranks are the places of a grid.
//!
//! The last coordinate changes fastest, as in MPI. Everything but making one is arithmetic on this rank alone.

use std::ops::Deref;

use treepie_base::{Error, Rank, Result};

use crate::comm::Comm;
use crate::split::digest_of;

/// A communicator whose ranks are the places of a grid.
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
    /// A communicator of the first ranks as a grid with these sides, in some dimensions a ring. The last coordinate
    /// changes fastest. All ranks call it; those for whom there is no place get nothing. [`balanced_dims`](crate::balanced_dims)
    /// finds sides.
    ///
    /// # Errors
    /// If there are more places than ranks, if a side is 0, or if not each dimension has both; if the ranks do not agree, on
    /// those that have a place.
    pub fn cartesian(&self, dims: &[usize], periodic: &[bool]) -> Result<Option<Cartesian>> {
        let _compared = self.agree_on_split(|| format!("cartesian of {dims:?} {periodic:?}"))?;
        // Those who ask for something else must not wait for this rank, nor be in one grid with it.
        let asked = places(dims, periodic, self.size());
        let has_place = asked.as_ref().is_ok_and(|places| self.rank() < *places);
        let colour = has_place.then(|| colour_of(dims, periodic));
        let comm = self.split(colour, 0)?;
        let places = asked?;
        let Some(comm) = comm else { return Ok(None) };
        if comm.size() != places {
            let grid = shape(dims);
            return Err(Error::Algorithm(format!(
                "{} of the {places} ranks of a grid of {grid} ask for it",
                comm.size()
            )));
        }
        Ok(Some(Cartesian { comm, dims: dims.to_vec(), periodic: periodic.to_vec() }))
    }
}

impl Cartesian {
    /// The sides of the grid.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// Which dimensions are rings.
    pub fn periodic(&self) -> &[bool] {
        &self.periodic
    }

    /// Where a rank is.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn coordinates(&self, rank: Rank) -> Result<Vec<usize>> {
        self.check_rank(rank)?;
        let mut coordinates = self.dims.clone();
        let mut left = rank;
        for coordinate in coordinates.iter_mut().rev() {
            let side = *coordinate;
            *coordinate = left % side;
            left /= side;
        }
        Ok(coordinates)
    }

    /// The rank at a place. Coordinates may lie outside the grid: in a dimension that is a ring they go around, and beyond the
    /// edge of another one there is nobody.
    ///
    /// # Panics
    /// If there is not one coordinate for each dimension.
    pub fn rank_at(&self, coordinates: &[isize]) -> Option<Rank> {
        assert_eq!(coordinates.len(), self.dims.len(), "coordinates for the dimensions of a grid");
        let sides = self.dims.iter().zip(&self.periodic);
        sides.zip(coordinates).try_fold(0, |rank, ((side, periodic), coordinate)| {
            let within = if *periodic { coordinate.rem_euclid(*side as isize) } else { *coordinate };
            let within = usize::try_from(within).ok().filter(|within| within < side)?;
            Some(rank * side + within)
        })
    }

    /// Who sends to this rank and to whom it sends where everybody sends so many places further in a dimension; nobody
    /// beyond an edge.
    ///
    /// # Panics
    /// If there is no such dimension.
    pub fn shift(&self, dimension: usize, by: isize) -> (Option<Rank>, Option<Rank>) {
        let (side, periodic) = (self.dims[dimension] as isize, self.periodic[dimension]);
        let mut at: Vec<isize> = self.here().into_iter().map(|coordinate| coordinate as isize).collect();
        let own = at[dimension];
        // Around a ring the rest does; elsewhere what does not fit into a number is beyond the edge anyway.
        let by = if periodic { by % side } else { by };
        let mut towards = |there: Option<isize>| {
            at[dimension] = there?;
            self.rank_at(&at)
        };
        (towards(own.checked_sub(by)), towards(own.checked_add(by)))
    }

    /// The ranks one place away: for each dimension the one before and the one after; nobody beyond an edge. A ring of two has
    /// the same on both sides, and one of one this rank itself.
    pub fn neighbours(&self) -> Vec<Option<Rank>> {
        (0..self.dims.len())
            .map(|dimension| self.shift(dimension, 1))
            .flat_map(|(before, after)| [before, after])
            .collect()
    }

    /// The part of the grid that this rank is in if only these dimensions are kept: of a plane a row or a column. All ranks
    /// call it, with the same.
    ///
    /// # Errors
    /// If it is not said for each dimension, or if not all ranks of this one's part keep the same.
    pub fn sub(&self, keep: &[bool]) -> Result<Cartesian> {
        let _compared = self.comm.agree_on_split(|| format!("sub keeping {keep:?}"))?;
        let asked = self.check_length("what to keep of a grid", keep);
        let kept = |which: bool| {
            keep.iter().zip(0..self.dims.len()).filter(move |(keep, _)| **keep == which).map(|(_, at)| at)
        };
        let here = self.here();
        let index = |which: bool| kept(which).fold(0, |index, at| index * self.dims[at] + here[at]);
        let colour = asked.is_ok().then(|| self.number_of_part(keep, &here).unwrap_or(index(false) as u32));
        let comm = self.comm.split(colour, 0)?;
        asked?;
        let comm = comm.expect("it has a colour");
        let dims: Vec<usize> = kept(true).map(|at| self.dims[at]).collect();
        if (comm.size(), comm.rank()) != (dims.iter().product(), index(true)) {
            return Err(Error::Algorithm(format!(
                "ranks keep different dimensions of a grid of {}",
                shape(&self.dims)
            )));
        }
        Ok(Cartesian { comm, dims, periodic: kept(true).map(|at| self.periodic[at]).collect() })
    }

    /// A number for each part of each choice of what to keep, so that ranks which keep different dimensions are not put
    /// together: a digit for each dimension, with one more where all of it is kept. Nothing if there are too many.
    fn number_of_part(&self, keep: &[bool], here: &[usize]) -> Option<u32> {
        let bases = self.dims.iter().map(|side| u32::try_from(side + 1).ok());
        bases.clone().try_fold(1, |numbers: u32, base| numbers.checked_mul(base?))?;
        let digits = keep.iter().zip(here).zip(&self.dims).map(|((keep, at), side)| if *keep { side } else { at });
        bases.zip(digits).try_fold(0, |number, (base, digit)| Some(number * base? + *digit as u32))
    }

    fn here(&self) -> Vec<usize> {
        self.coordinates(self.rank()).expect("this rank exists")
    }

    fn check_length<T>(&self, what: &'static str, list: &[T]) -> Result<()> {
        check_length(what, list.len(), self.dims.len())
    }
}

fn check_length(what: &'static str, got: usize, expected: usize) -> Result<()> {
    if got == expected { Ok(()) } else { Err(Error::BadLength { what, got, expected }) }
}

/// How many places a grid has. Refuses one that so many ranks cannot be.
fn places(dims: &[usize], periodic: &[bool], ranks: usize) -> Result<usize> {
    check_length("which dimensions of a grid are rings", periodic.len(), dims.len())?;
    let places = dims.iter().fold(1, |places: usize, side| places.saturating_mul(*side));
    if dims.contains(&0) {
        return Err(Error::Algorithm(format!("a grid of {} has no places", shape(dims))));
    }
    if places > ranks {
        let grid = shape(dims);
        return Err(Error::Algorithm(format!("a grid of {grid} has more places than the {ranks} ranks")));
    }
    Ok(places)
}

/// For people.
fn shape(dims: &[usize]) -> String {
    if dims.is_empty() {
        return "no dimensions".to_owned();
    }
    dims.iter().map(usize::to_string).collect::<Vec<_>>().join("x")
}

/// The same for ranks that ask for the same grid, and as good as always another one for others.
fn colour_of(dims: &[usize], periodic: &[bool]) -> u32 {
    let list: Vec<usize> = dims.iter().copied().chain(periodic.iter().map(|is| usize::from(*is))).collect();
    let digest = digest_of(&list);
    (digest >> 32) as u32 ^ digest as u32
}
