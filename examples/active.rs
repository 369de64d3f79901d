//! Components of a graph by active messages: each vertex takes the least label that it hears of and tells its neighbours.
//!
//! ```text
//! cargo build --release --examples
//! treepie run -n 4 target/release/examples/active          four processes on this machine
//! mpirun -n 4 target/release/examples/active               the same under MPI
//! target/release/examples/active                           alone: a world of one
//! TREEPIE_AM=routing=rook,reductions=1024, style=bsp, ...  messages travel otherwise, and the result is the same
//! ```

use bytemuck::{Pod, Zeroable};
use treepie::prelude::*;

const VERTICES: u32 = 10_000;
/// Vertices are in the same component if they leave the same remainder.
const COMPONENTS: u32 = 8;

/// What a vertex is told.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Label {
    vertex: u32,
    label: u32,
}

/// What a rank has: its vertices from `first` on.
struct Part {
    first: u32,
    labels: Vec<u32>,
    neighbours: Vec<[u32; 3]>,
}

impl Part {
    fn place(&self, vertex: u32) -> usize {
        (vertex - self.first) as usize
    }
}

fn main() -> treepie::Result<()> {
    let world = treepie::init()?;
    let (me, size) = (world.rank(), world.size());
    let block = VERTICES.div_ceil(size as u32);

    // 1. Which messages there are, and whose they are.
    let mut build = ActiveMessages::<Part>::builder(&world);
    let tell = build.target("tell", move |m: &Label| (m.vertex / block) as Rank);

    // 2. What is done with one. It says first which memory it will touch, as that is somewhere else for each. A handler may
    //    send; here it tells the neighbours when it has learnt something.
    build.on_touch(
        tell,
        |part, m| &part.labels[part.place(m.vertex)],
        move |part, cx, Label { vertex, label }| {
            let place = part.place(vertex);
            if label < part.labels[place] {
                part.labels[place] = label;
                cx.add(1);
                part.neighbours[place].into_iter().for_each(|vertex| cx.send_to(&tell, Label { vertex, label }));
            }
        },
    );
    // Of what one vertex is told only the least counts. Whether messages are combined is a matter of configuration.
    build.combine(tell, |m| u64::from(m.vertex), |least, m| least.label = least.label.min(m.label));
    let mut am = build.start()?;

    // 3. Every vertex tells its neighbours its own number. When the epoch is over, nobody has anything more to tell.
    let own = (me as u32 * block).min(VERTICES)..((me as u32 + 1) * block).min(VERTICES);
    let neighbours = own.clone().map(neighbours).collect();
    let mut part = Part { first: own.start, labels: own.clone().collect(), neighbours };
    let learnt = am.epoch_for(&mut part, own.clone(), |cx, part, label| {
        part.neighbours[part.place(label)].into_iter().for_each(|vertex| cx.send_to(&tell, Label { vertex, label }));
    })?;

    // 4. Each vertex has the least number of its component.
    assert!(own.clone().zip(&part.labels).all(|(vertex, label)| *label == vertex % COMPONENTS), "a wrong label");
    let roots = own.zip(&part.labels).filter(|(vertex, label)| vertex == *label).count();
    let components = world.all_reduce(&[roots], Sum)?[0];
    let seen = &am.statistics()[0];
    println!("rank {me}: {} messages sent in {} buffers, {} handled", seen.sent, seen.buffers, seen.handled);
    if me == 0 {
        println!("rank 0: {VERTICES} vertices in {components} components, found by {learnt} new labels");
    }
    Ok(())
}

/// A ring through each component, and two edges to somewhere in it.
fn neighbours(vertex: u32) -> [u32; 3] {
    let jump = |by: u32| (vertex + by % VERTICES * COMPONENTS) % VERTICES;
    [jump(1), jump(vertex * 7 + 5), jump(vertex * vertex % 1009)]
}
