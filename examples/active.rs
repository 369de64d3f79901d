//! Connected components by active messages: each vertex takes the least label it receives and sends it on.
//!
//! ```text
//! cargo build --release --examples
//! treepie run -n 4 target/release/examples/active          four processes on this machine
//! mpirun -n 4 target/release/examples/active               the same under MPI
//! target/release/examples/active                           alone: a world of one
//! TREEPIE_AM=routing=rook,reductions=1024, style=bsp, ...  another configuration, the same result
//! ```

use bytemuck::{Pod, Zeroable};
use treepie::prelude::*;

const VERTICES: u32 = 10_000;
/// Vertices are in the same component if they are congruent modulo this number.
const COMPONENTS: u32 = 8;

/// A message: a label for a vertex.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Label {
    vertex: u32,
    label: u32,
}

/// The local vertices of a rank, from `first` on.
struct Part {
    first: u32,
    labels: Vec<u32>,
    neighbors: Vec<[u32; 3]>,
}

impl Part {
    fn local_index(&self, vertex: u32) -> usize {
        (vertex - self.first) as usize
    }
}

fn main() -> treepie::Result<()> {
    treepie::main(|world| {
        let (me, size) = (world.rank(), world.size());
        let block = VERTICES.div_ceil(size as u32);

        // 1. The message type, and the owner of each message.
        let mut build = ActiveMessages::<Part>::builder(&world);
        let tell = build.target("tell", move |m: &Label| (m.vertex / block) as Rank);

        // 2. The handler, with the address to prefetch, as labels are accessed at random. A handler may send; here it
        //    sends a smaller label on to the neighbors.
        build.on_prefetch(
            tell,
            |part, m| &part.labels[part.local_index(m.vertex)],
            move |part, cx, Label { vertex, label }| {
                let local = part.local_index(vertex);
                if label < part.labels[local] {
                    part.labels[local] = label;
                    cx.add_to_sum(1);
                    part.neighbors[local]
                        .into_iter()
                        .for_each(|vertex| cx.send_to_owner(&tell, Label { vertex, label }));
                }
            },
        );
        // Only the least label of a vertex counts. Whether messages are combined is a matter of configuration.
        build.combine(tell, |m| u64::from(m.vertex), |least, m| least.label = least.label.min(m.label));
        let mut am = build.start()?;

        // 3. Every vertex sends its id to its neighbors. When the epoch ends, all messages have been handled.
        let local = (me as u32 * block).min(VERTICES)..((me as u32 + 1) * block).min(VERTICES);
        let neighbors = local.clone().map(neighbors).collect();
        let mut part = Part { first: local.start, labels: local.clone().collect(), neighbors };
        let updates = am.epoch_for(&mut part, local.clone(), |cx, part, label| {
            part.neighbors[part.local_index(label)]
                .into_iter()
                .for_each(|vertex| cx.send_to_owner(&tell, Label { vertex, label }));
        })?;

        // 4. Each vertex has the least id of its component.
        assert!(local.clone().zip(&part.labels).all(|(vertex, label)| *label == vertex % COMPONENTS), "a wrong label");
        let roots = local.zip(&part.labels).filter(|(vertex, label)| vertex == *label).count();
        let components = world.allreduce(&[roots], Sum)?[0];
        let statistics = &am.statistics()[0];
        println!(
            "rank {me}: {} messages sent in {} buffers, {} handled",
            statistics.sent, statistics.buffers, statistics.handled
        );
        if me == 0 {
            println!("rank 0: {VERTICES} vertices in {components} components, found by {updates} label updates");
        }
        Ok(())
    })
}

/// A ring through each component, and two edges to somewhere in it.
fn neighbors(vertex: u32) -> [u32; 3] {
    let jump = |by: u32| (vertex + by % VERTICES * COMPONENTS) % VERTICES;
    [jump(1), jump(vertex * 7 + 5), jump(vertex * vertex % 1009)]
}
