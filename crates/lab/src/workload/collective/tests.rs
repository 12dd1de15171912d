use std::collections::{BTreeSet, HashMap};

use super::patterns::Blocks;
use super::*;

const OPERATIONS: [Operation; 5] =
    [Operation::AllReduce, Operation::AllGather, Operation::ReduceScatter, Operation::AllToAll, Operation::Broadcast];

fn spec(collective: Operation, algorithm: Algorithm, parts: u32) -> Collective {
    Collective {
        collective,
        algorithm,
        size: Quantity(Bytes::new(1000)),
        ranks: None,
        placement: Placement::InOrder,
        hosts: Vec::new(),
        first_host: 0,
        parts,
        overlap: parts == 1,
        compute: least(),
        iterations: 2,
        pause: least(),
    }
}

/// Every collective in every way, for some numbers of ranks.
fn jobs() -> Vec<Job> {
    let mut jobs = Vec::new();
    for (collective, algorithm) in
        OPERATIONS.into_iter().flat_map(|operation| Algorithm::ALL.map(|algorithm| (operation, algorithm)))
    {
        for ranks in [2_u32, 3, 4, 5, 7, 8, 12, 16] {
            for parts in [1, 3] {
                let spec = spec(collective, algorithm, parts);
                let known = spec.check().is_ok() && (algorithm != Algorithm::RecursiveDoubling || ranks.is_power_of_two());
                let Some(pattern) = spec.pattern(ranks).filter(|_| known) else { continue };
                jobs.push(Job { spec, pattern, hosts: (0..ranks).map(NodeId).collect(), start: Time::ZERO, tenant: 0 });
            }
        }
    }
    jobs
}

fn name(job: &Job) -> String {
    format!("{} {} {} {}", job.spec.collective.name(), job.spec.algorithm.name(), job.ranks(), job.spec.parts)
}

/// For each task, what waits for it.
fn nexts(job: &Job, task: u32) -> Vec<(u32, End)> {
    let mut nexts = Vec::new();
    job.each_next(task, &mut |next, end, _| nexts.push((next, end)));
    nexts
}

/// What tasks need is what names them, all of it happens at their host, and nothing waits for itself: tasks can be put in an order.
#[test]
fn needs_are_what_names_a_task() {
    for job in jobs() {
        let mut needs: HashMap<u32, usize> = HashMap::new();
        for task in 0..job.count() as u32 {
            for (next, end) in nexts(&job, task) {
                *needs.entry(next).or_default() += 1;
                let at = match (job.task(task), end) {
                    (Task::Flow(flow), End::Received) => flow.dst,
                    (before, _) => before.host(),
                };
                assert_eq!(at, job.task(next).host(), "{}: {task} and {next}", name(&job));
            }
        }
        let starts: BTreeSet<u32> = job.starts().map(|(task, _)| task).collect();
        let mut ready: Vec<u32> = starts.iter().copied().collect();
        let mut left: HashMap<u32, usize> = needs.clone();
        let mut begun = 0;
        while let Some(task) = ready.pop() {
            begun += 1;
            for (next, _) in nexts(&job, task) {
                let open = left.get_mut(&next).expect("it is named");
                *open -= 1;
                if *open == 0 {
                    ready.push(next);
                }
            }
        }
        assert_eq!(begun, job.count(), "{}", name(&job));
        for task in 0..job.count() as u32 {
            let found = needs.get(&task).copied().unwrap_or(0) + usize::from(starts.contains(&task));
            assert_eq!(found, job.needs(task), "{}: {task}", name(&job));
        }
    }
}

/// What precedes each task of the first two iterations: the tasks that it waits for, directly or not, and what must have happened to them.
fn causes(job: &Job) -> Vec<BTreeSet<(u32, bool)>> {
    let mut befores: Vec<Vec<(u32, End)>> = vec![Vec::new(); job.count()];
    for task in 0..job.count() as u32 {
        nexts(job, task).into_iter().for_each(|(next, end)| befores[next as usize].push((task, end)));
    }
    (0..job.count())
        .map(|task| {
            let (mut seen, mut open) = (BTreeSet::new(), vec![task as u32]);
            while let Some(task) = open.pop() {
                for (before, end) in &befores[task as usize] {
                    if seen.insert((*before, *end == End::Received)) {
                        open.push(*before);
                    }
                }
            }
            seen
        })
        .collect()
}

/// A rank ends an iteration when it has received all that is sent to it, and all that it needs has come from ranks that have begun.
#[test]
fn an_iteration_ends_when_all_has_been_received() {
    for job in jobs() {
        let (ranks, causes) = (job.ranks(), causes(&job));
        for rank in 0..ranks {
            let known = &causes[(job.block() + rank) as usize];
            for send in 0..job.sends() {
                if job.flow(send).dst == NodeId(rank) {
                    assert!(known.contains(&(ranks + send, true)), "{}: rank {rank} lacks send {send}", name(&job));
                }
            }
            let begun = |other: &u32| *other == rank || known.contains(&(*other, false));
            let missing: Vec<u32> = match job.spec.collective {
                Operation::Broadcast => [0].into_iter().filter(|other| !begun(other)).collect(),
                _ => (0..ranks).filter(|other| !begun(other)).collect(),
            };
            assert!(missing.is_empty(), "{}: rank {rank} ends before {missing:?} begin", name(&job));
        }
    }
}

/// How many bytes all ranks send together, which the algorithms' inventors give.
#[test]
fn bytes_by_hand() {
    for job in jobs() {
        let sent: u64 = (0..job.sends()).map(|number| job.flow(number).size.get()).sum();
        let (n, size) = (u64::from(job.ranks()), job.spec.size.0.get());
        let expected = match (job.spec.collective, job.spec.algorithm) {
            (Operation::AllReduce, Algorithm::RecursiveDoubling) => n * size * u64::from(job.ranks().ilog2()),
            (Operation::AllReduce, _) => 2 * (n - 1) * size,
            (Operation::AllToAll, _) => n * size - size, // each block is left out once
            _ => (n - 1) * size,
        };
        assert_eq!(sent, expected, "{}", name(&job));
        let received = (0..job.ranks()).map(|rank| {
            let to_rank = (0..job.sends()).map(|number| job.flow(number)).filter(|flow| flow.dst == NodeId(rank));
            to_rank.map(|flow| flow.size.get()).sum::<u64>()
        });
        let blocks = Blocks { bytes: size, count: job.ranks() };
        for (rank, received) in (0..).zip(received) {
            let own = blocks.one(rank);
            match job.spec.collective {
                Operation::AllGather => assert_eq!(received, size - own, "{}", name(&job)),
                Operation::AllToAll => assert_eq!(received, own * (n - 1), "{}", name(&job)),
                Operation::Broadcast => assert_eq!(received, if rank == 0 { 0 } else { size }, "{}", name(&job)),
                Operation::AllReduce | Operation::ReduceScatter => {}
            }
        }
    }
}

#[test]
fn blocks_by_hand() {
    let blocks = Blocks { bytes: 11, count: 4 };
    assert_eq!([0, 1, 2, 3].map(|number| blocks.one(number)), [3, 3, 3, 2]);
    assert_eq!([(0, 2), (1, 2), (2, 2), (0, 4), (3, 1)].map(|(first, count)| blocks.of(first, count)), [6, 6, 5, 11, 2]);
}

/// NCCL's documentation: the bus bandwidth of an all-reduce of n ranks is that of the algorithm times 2 (n - 1) / n.
#[test]
fn bus_factors_by_hand() {
    assert_eq!(OPERATIONS.map(|operation| operation.bus_factor(4)), [1.5, 0.75, 0.75, 0.75, 1.0]);
}
