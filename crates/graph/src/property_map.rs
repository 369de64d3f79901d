//! Distributed property maps: values of vertices, stored by their owners.
//!
//! A [`PropertyMap`] is the result of an algorithm. While an algorithm runs, the values of local vertices are part of
//! its active-message state: [`PropertyUpdates`] puts or accumulates values at neighbors; [`PropertyReads`] gets them,
//! and calls a continuation when they arrive.

use std::fmt;
use std::ops::{Index, IndexMut};

use bytemuck::{Pod, Zeroable};
use treepie_am::{Builder, Call, Context, Port};
use treepie_base::memory::collected;

use crate::csr::VALUES_PURPOSE;
use crate::{EdgeWeight, Error, Graph, Neighbor, Result};

/// A value of each vertex of a graph. Each rank has those of its local vertices: `map[v]` is the value at the local
/// index `v`.
#[derive(Clone)]
pub struct PropertyMap<'g, T, W = ()> {
    graph: &'g Graph<W>,
    values: Vec<T>,
}

impl<'g, T, W: EdgeWeight> PropertyMap<'g, T, W> {
    /// From a value for each local vertex.
    pub fn new(graph: &'g Graph<W>, values: Vec<T>) -> Result<Self> {
        let (count, vertices) = (values.len(), graph.num_local());
        if count != vertices {
            return Err(Error::Input(format!("there are {count} values for {vertices} local vertices")));
        }
        Ok(Self { graph, values })
    }

    /// The graph.
    pub fn graph(&self) -> &'g Graph<W> {
        self.graph
    }

    /// The values of local vertices.
    pub fn local(&self) -> &[T] {
        &self.values
    }

    /// The values of local vertices.
    pub fn into_local(self) -> Vec<T> {
        self.values
    }

    /// The external ids and the values of local vertices.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u64, &T)> {
        self.values.iter().enumerate().map(|(local_index, value)| (self.graph.external_id(local_index), value))
    }

    /// The value of the vertex with an external id, on any rank. All ranks call it, with the same id.
    ///
    /// # Errors
    /// [`Error::Input`] if there is no such vertex.
    pub fn get(&self, external_id: u64) -> Result<T>
    where
        T: Pod,
    {
        let (owner, local_index) = self.graph.layout().owner(self.graph.find_vertex(external_id)?);
        let is_local = owner == self.graph.layout().rank();
        let value = if is_local { self.values[local_index as usize] } else { T::zeroed() };
        Ok(self.graph.comm().bcast_one(value, owner)?)
    }
}

impl<T, W> Index<usize> for PropertyMap<'_, T, W> {
    type Output = T;

    #[inline]
    fn index(&self, local_index: usize) -> &T {
        &self.values[local_index]
    }
}

impl<T, W> IndexMut<usize> for PropertyMap<'_, T, W> {
    #[inline]
    fn index_mut(&mut self, local_index: usize) -> &mut T {
        &mut self.values[local_index]
    }
}

impl<T: fmt::Debug, W: EdgeWeight> fmt::Debug for PropertyMap<'_, T, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<W: EdgeWeight> PropertyMap<'_, f64, W> {
    /// The external ids and scores of the `k` vertices with the highest scores, best first; ties in order of external
    /// ids. All ranks call it.
    pub fn top_k(&self, k: usize) -> Result<Vec<(u64, f64)>> {
        let k = k.min(self.graph.num_vertices() as usize);
        let order = |left: &(u64, f64), right: &(u64, f64)| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0));
        let mut best: Vec<(u64, f64)> = collected(self.iter().map(|(id, score)| (id, *score)), VALUES_PURPOSE)?;
        if k < best.len() {
            best.select_nth_unstable_by(k, order);
            best.truncate(k);
        }
        // All ranks send k + 1 pairs: the first has the number of valid ones.
        let mut sent = vec![[0; 2]; k + 1];
        sent[0][0] = best.len() as u64;
        for (slot, (external_id, score)) in sent[1..].iter_mut().zip(&best) {
            *slot = [*external_id, score.to_bits()];
        }
        let received = self.graph.comm().allgather(&sent)?;
        let from_all = received.chunks(k + 1).flat_map(|of_rank| &of_rank[1..=of_rank[0][0] as usize]);
        let mut best: Vec<(u64, f64)> = from_all.map(|[id, bits]| (*id, f64::from_bits(*bits))).collect();
        best.sort_unstable_by(order);
        best.truncate(k);
        Ok(best)
    }
}

/// A value for a local index of the destination.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, packed)]
struct UpdateMessage<T> {
    local_index: u32,
    value: T,
}

/// Updates of values of vertices.
#[derive(Clone, Copy)]
pub struct PropertyUpdates<T: Pod> {
    port: Port<UpdateMessage<T>>,
}

impl<T: Pod> PropertyUpdates<T> {
    /// Registers updates: `update` is called with the value of a vertex in `values`, those of local vertices, and with
    /// the value that was sent.
    ///
    /// If `update` is commutative and associative (sums, minima), `combines` lets updates be combined before they are
    /// sent.
    pub fn register<S>(
        build: &mut Builder<S>,
        name: &str,
        values: impl Fn(&mut S) -> &mut [T] + 'static,
        update: impl Fn(&mut T, T) + Copy + 'static,
        combines: bool,
    ) -> Self {
        let port = build.port::<UpdateMessage<T>>(name);
        build
            .on(port, move |state, _, message| update(&mut values(state)[message.local_index as usize], message.value));
        if combines {
            build.combine(
                port,
                |message: &UpdateMessage<T>| message.local_index.into(),
                move |into: &mut UpdateMessage<T>, message| {
                    let mut value = into.value;
                    update(&mut value, message.value);
                    into.value = value;
                },
            );
        }
        Self { port }
    }

    /// Updates the value of a neighbor.
    #[inline]
    pub fn send<S, W: Copy>(&self, cx: &mut Context<S>, neighbor: Neighbor<'_, W>, value: T) {
        let (rank, local_index) = neighbor.owner();
        cx.send(self.port, rank, UpdateMessage { local_index, value });
    }
}

/// Reads of values of vertices, each with a context for the continuation.
#[derive(Clone, Copy)]
pub struct PropertyReads<T: Pod, N: Pod> {
    call: Call<u32, T, N>,
}

impl<T: Pod, N: Pod> PropertyReads<T, N> {
    /// Registers reads: `then` is called with the context and the value.
    pub fn register<S>(
        build: &mut Builder<S>,
        name: &str,
        values: impl Fn(&mut S) -> &mut [T] + 'static,
        then: impl FnMut(&mut S, &mut Context<S>, N, T) + 'static,
    ) -> Self {
        let call = build.call::<u32, T, N>(name);
        build.on_call(call, move |state, _, local_index: u32| values(state)[local_index as usize], then);
        Self { call }
    }

    /// Requests the value of a neighbor.
    #[inline]
    pub fn get<S, W: Copy>(&self, cx: &mut Context<S>, neighbor: Neighbor<'_, W>, context: N) {
        let (rank, local_index) = neighbor.owner();
        cx.call(self.call, rank, context, local_index);
    }
}
