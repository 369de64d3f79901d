//! A network and where the ranks are on it.

use std::collections::HashMap;

use crate::{Clos, Clusters, Error, Flat, Result, Tie, Torus};

/// A network and where the ranks are on it.
///
/// Flat and Clos networks may be *open*: described without a number of ranks, which [`Network::for_ranks`] or
/// [`Network::placed`] settles. Until then they have no ranks, and no route can be asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    kind: Kind,
    /// The place of each rank; nothing if rank and place are the same everywhere.
    at: Option<Vec<u32>>,
}

/// What kind of network it is.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Kind {
    /// Nothing but the nodes' own links.
    Flat(Flat),
    /// Rings or lines in several dimensions: torus, mesh, or mixed.
    Torus(Torus),
    /// A fat tree.
    Clos(Clos),
    /// Clusters joined by gateways.
    Clusters(Clusters),
}

impl Network {
    /// A network without structure; open if there are 0 ranks.
    ///
    /// # Panics
    /// With 2^31 ranks or more.
    pub fn flat(ranks: u32) -> Self {
        Flat::new(ranks).map(|flat| Kind::Flat(flat).into()).expect("fewer than 2^31 ranks")
    }

    /// A torus where every dimension wraps, a mesh where none does, or something between.
    ///
    /// The first dimension is the fastest: place = x + X (y + Y z).
    pub fn torus(dims: &[u32], wrap: &[bool]) -> Result<Self> {
        Ok(Kind::Torus(Torus::new(dims, wrap)?).into())
    }

    /// A Clos network of switches with `radix` ports and leaves of `terminals` nodes; open if there are 0 ranks.
    pub fn clos(radix: u32, terminals: u32, ranks: u32) -> Result<Self> {
        Ok(Kind::Clos(Clos::new(radix, terminals, ranks)?).into())
    }

    /// Clusters of consecutive ranks.
    pub fn clusters(sizes: &[u32]) -> Result<Self> {
        Ok(Kind::Clusters(Clusters::new(sizes)?).into())
    }

    /// The same network with ranks only at these places, the first of them for rank 0.
    ///
    /// There may be fewer ranks than places: an irregular partition. An open network gets as many places as it needs.
    pub fn placed(self, places: Vec<u32>) -> Result<Self> {
        let Some(&highest) = places.iter().max() else { return Err(Error::NoRanks) };
        let whole = if self.places() == 0 { self.sized(highest.saturating_add(1))? } else { self };
        // Before anything is made for all of them.
        if let Some((&place, rank)) = places.iter().zip(0..).find(|(place, _)| **place >= whole.places()) {
            return Err(Error::PlaceOutside { rank, place, places: whole.places() });
        }
        let mut rank_at = HashMap::new();
        rank_at.try_reserve(places.len()).map_err(|_| Error::Memory { entries: places.len() })?;
        for (&place, rank) in places.iter().zip(0..) {
            if let Some(first) = rank_at.insert(place, rank) {
                return Err(Error::PlaceTwice { place, first, second: rank });
            }
        }
        let same =
            places.len() == whole.places() as usize && places.iter().zip(0..).all(|(&place, rank)| place == rank);
        Ok(Network { kind: whole.kind, at: (!same).then_some(places) })
    }

    /// The same network with so many ranks: settles an open one, and refuses if the number is another one already.
    pub fn for_ranks(self, ranks: u32) -> Result<Self> {
        match (ranks, self.ranks()) {
            (0, _) => Err(Error::NoRanks),
            (_, 0) => self.sized(ranks),
            (asked, ranks) if asked != ranks => Err(Error::Ranks { asked, ranks, network: self.to_string() }),
            _ => Ok(self),
        }
    }

    /// An open network with so many places.
    fn sized(self, places: u32) -> Result<Self> {
        match self.kind {
            Kind::Flat(_) => Ok(Kind::Flat(Flat::new(places)?).into()),
            Kind::Clos(clos) => Network::clos(clos.radix(), clos.terminals(), places),
            Kind::Torus(_) | Kind::Clusters(_) => unreachable!("tori and clusters always have places"),
        }
    }

    /// What kind of network it is.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The torus or mesh, if it is one.
    pub fn torus_kind(&self) -> Option<&Torus> {
        if let Kind::Torus(torus) = &self.kind { Some(torus) } else { None }
    }

    /// The Clos network, if it is one.
    pub fn clos_kind(&self) -> Option<&Clos> {
        if let Kind::Clos(clos) = &self.kind { Some(clos) } else { None }
    }

    /// The clusters, if it is made of such.
    pub fn clusters_kind(&self) -> Option<&Clusters> {
        if let Kind::Clusters(clusters) = &self.kind { Some(clusters) } else { None }
    }

    /// Number of ranks; 0 only for an open network.
    pub fn ranks(&self) -> u32 {
        self.at.as_ref().map_or(self.places(), |at| at.len() as u32)
    }

    /// Number of places, with and without ranks.
    pub fn places(&self) -> u32 {
        match &self.kind {
            Kind::Flat(flat) => flat.places(),
            Kind::Torus(torus) => torus.places(),
            Kind::Clos(clos) => clos.places(),
            Kind::Clusters(clusters) => clusters.places(),
        }
    }

    /// Where a rank is.
    pub fn place(&self, rank: u32) -> u32 {
        debug_assert!(rank < self.ranks(), "rank {rank} of {}", self.ranks());
        self.at.as_ref().map_or(rank, |at| at[rank as usize])
    }

    /// The place of each rank, where that is not simply the rank.
    pub fn placement(&self) -> Option<&[u32]> {
        self.at.as_deref()
    }

    /// Whether there is a rank at every place, and each at the place of its own number.
    pub fn is_whole(&self) -> bool {
        self.at.is_none()
    }

    /// Links that one node can drive at once: both directions of each dimension on a torus, otherwise 1.
    pub fn ports(&self) -> u32 {
        self.torus_kind().map_or(1, Torus::ports)
    }

    /// Number of directed links: their ids are below it.
    pub fn links(&self) -> u32 {
        match &self.kind {
            Kind::Flat(flat) => flat.links(),
            Kind::Torus(torus) => torus.links(),
            Kind::Clos(clos) => clos.links(),
            Kind::Clusters(clusters) => clusters.links(),
        }
    }

    /// What a link carries at once, in units of the link that a node sends by.
    ///
    /// Gateways of clusters count as 1: how slow they are is for a cost model to say.
    pub fn capacity(&self, link: u32) -> f64 {
        self.clos_kind().map_or(1.0, |clos| clos.capacity(link))
    }

    /// Calls `link` for each directed link on the way from one rank to another, in order; for none if they are the
    /// same.
    pub fn route(&self, from: u32, to: u32, tie: Tie, link: impl FnMut(u32)) {
        let (from, to) = (self.place(from), self.place(to));
        match &self.kind {
            Kind::Flat(flat) => flat.route(from, to, link),
            Kind::Torus(torus) => torus.route(from, to, tie, link),
            Kind::Clos(clos) => clos.route(from, to, link),
            Kind::Clusters(clusters) => clusters.route(from, to, link),
        }
    }

    /// All places in an order in which neighbours are near: one hop on a torus or mesh, leaf by leaf on a Clos network,
    /// cluster by cluster, or simply in order.
    pub fn hamiltonian(&self) -> Vec<u32> {
        self.torus_kind().map_or_else(|| (0..self.places()).collect(), Torus::hamiltonian)
    }

    /// Several Hamiltonian paths of places that share no link; see [`Torus::hamiltonian_lanes`]. Other networks have
    /// one.
    pub fn hamiltonian_lanes(&self) -> Vec<Vec<u32>> {
        self.torus_kind().map_or_else(|| vec![self.hamiltonian()], Torus::hamiltonian_lanes)
    }

    /// [`Network::hamiltonian_lanes`] as orders of ranks: places without a rank are left out. [thesis 3.4.3]
    pub fn lanes(&self) -> Vec<Vec<u32>> {
        let lanes = self.hamiltonian_lanes();
        let Some(at) = &self.at else { return lanes };
        let mut rank_at = vec![None; self.places() as usize];
        for (&place, rank) in at.iter().zip(0..) {
            rank_at[place as usize] = Some(rank);
        }
        let present = |lane: Vec<u32>| lane.into_iter().filter_map(|place| rank_at[place as usize]).collect();
        lanes.into_iter().map(present).collect()
    }
}

impl From<Kind> for Network {
    fn from(kind: Kind) -> Self {
        Network { kind, at: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_where_they_were_placed() {
        let network = Network::torus(&[4, 4], &[true, true]).unwrap().placed(vec![5, 0, 9]).unwrap();
        assert_eq!((network.ranks(), network.places(), network.is_whole()), (3, 16, false));
        assert_eq!(network.place(2), 9);
        let mut way = Vec::new();
        network.route(0, 2, Tie::default(), |link| way.push(link));
        assert_eq!(way, [22]);
    }

    #[test]
    fn placing_every_rank_at_home_is_whole() {
        let network = Network::flat(3);
        assert_eq!(network.clone().placed(vec![0, 1, 2]), Ok(network.clone()));
        assert!(!network.clone().placed(vec![0, 2, 1]).unwrap().is_whole());
        assert!(!network.placed(vec![0, 1]).unwrap().is_whole());
    }

    #[test]
    fn places_that_cannot_be_are_refused() {
        let network = Network::flat(4);
        assert_eq!(network.clone().placed(vec![]), Err(Error::NoRanks));
        assert_eq!(network.clone().placed(vec![1, 4]), Err(Error::PlaceOutside { rank: 1, place: 4, places: 4 }));
        assert_eq!(network.placed(vec![2, 1, 2]), Err(Error::PlaceTwice { place: 2, first: 0, second: 2 }));
    }

    #[test]
    fn open_networks_take_any_number_of_ranks() {
        let open = Network::clos(80, 64, 0).unwrap();
        assert_eq!(open.ranks(), 0);
        assert_eq!(open.clone().for_ranks(100), Network::clos(80, 64, 100));
        assert_eq!(open.clone().for_ranks(0), Err(Error::NoRanks));
        assert_eq!(open.placed(vec![7, 70]).unwrap().places(), 71);
        assert_eq!(Network::flat(0).for_ranks(9), Ok(Network::flat(9)));
    }

    #[test]
    fn settled_networks_keep_their_number_of_ranks() {
        let network = Network::torus(&[4, 2], &[true, false]).unwrap();
        assert_eq!(network.clone().for_ranks(8), Ok(network.clone()));
        let error = network.for_ranks(7).unwrap_err();
        assert_eq!(error.to_string(), "7 ranks were asked for, but the network `torus:4x2,wrap=yn` has 8");
    }

    #[test]
    fn lanes_pass_by_absent_places() {
        let network = Network::torus(&[5, 5], &[true, true]).unwrap().placed(vec![24, 3, 11, 7]).unwrap();
        for lane in network.lanes() {
            let mut ranks = lane.clone();
            ranks.sort();
            assert_eq!(ranks, [0, 1, 2, 3]);
        }
        assert_eq!(network.lanes().len(), 2);
        assert_eq!(Network::clusters(&[2, 3]).unwrap().placed(vec![4, 1]).unwrap().lanes(), [[1, 0]]);
    }
}
