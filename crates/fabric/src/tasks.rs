//! Tasks: flows that start when others are over. Closed loops and jobs are made of them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use flowloom_core::{Bytes, Duration, Flow, FlowId, NodeId, Time};

use crate::calendar::Payload;

/// What a host does when it has waited for what it needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Task {
    /// It sends a flow, whose start is [`Time::MAX`], and which is no background flow. The task is over when the flow is.
    Flow(Flow),
    /// It does nothing: this host has what it needs, and the task is over at once. Joins save news where each of many tasks needs all of many others.
    Join(NodeId),
}

impl Task {
    /// The host that does it.
    pub fn host(&self) -> NodeId {
        match self {
            Task::Flow(flow) => flow.src,
            Task::Join(host) => *host,
        }
    }
}

/// What must have happened to a flow. A join has all of this at once, at its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Its sender has begun it.
    Begun,
    /// Its receiver has all bytes.
    Received,
    /// Its sender knows that.
    Acknowledged,
}

/// A task that waits for another task or flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Next {
    /// The task.
    pub task: FlowId,
    /// What must have happened to that.
    pub end: End,
    /// How long it takes after that until the task begins, if it waits for nothing else; above zero.
    pub delay: Duration,
}

/// All tasks of a run. What is told here never changes, so that regions share it, and tasks need no memory before they begin.
///
/// Tasks are numbered as flows are. Their numbers go on from those of the flows that have a start of their own.
///
/// A flow that is given up counts as received and acknowledged: its application does not wait for it any longer. Other hosts learn of that no sooner than after
/// the time that a header takes on the slowest link.
pub trait Tasks: Send + Sync {
    /// How many there are.
    fn count(&self) -> usize;
    /// One of them.
    fn task(&self, id: FlowId) -> Task;
    /// Tasks that wait for a time, and which. This counts as something that must have happened.
    fn starts(&self) -> Vec<(FlowId, Time)>;
    /// How many things must have happened before a task begins.
    fn needs(&self, id: FlowId) -> usize;
    /// Calls `visit` with each task that waits for a flow or a task.
    fn each_next(&self, id: FlowId, visit: &mut dyn FnMut(Next));
    /// The shortest delay with which one host learns that a flow is over at another host; [`Duration::MAX`] if none does.
    fn shortest_news(&self) -> Duration;
}

/// Tasks that are listed one by one.
#[derive(Clone, Debug)]
pub struct TaskList {
    first: usize,
    tasks: Vec<Task>,
    /// For how many others each of them waits.
    needs: Vec<u32>,
    /// Those that wait for something, by what they wait for.
    nexts: Vec<(FlowId, Next)>,
    /// When tasks begin, at the earliest.
    starts: Vec<(FlowId, Time)>,
    shortest_news: Duration,
}

impl TaskList {
    /// The tasks after `flows`, which have a start of their own. `nexts` are pairs of a flow or a task, and what waits for it; `starts` are pairs of a task, and when it begins at the
    /// earliest.
    ///
    /// # Panics
    /// If something waits that is no task, or begins without delay, or waits for nothing.
    pub fn new(flows: &[Flow], tasks: Vec<Task>, mut nexts: Vec<(FlowId, Next)>, starts: Vec<(FlowId, Time)>) -> TaskList {
        let first = flows.len();
        let mut needs = vec![0; tasks.len()];
        let mut shortest_news = Duration::MAX;
        let task = |id: FlowId| (id.0 as usize).checked_sub(first).map(|index| tasks[index]);
        for (before, Next { task: next, end, delay }) in &nexts {
            assert!(*delay > Duration::ZERO, "{next:?} would begin without delay");
            let index = (next.0 as usize).checked_sub(first).expect("a flow with a start of its own waits for nothing");
            needs[index] += 1;
            let known_at = match task(*before).unwrap_or_else(|| Task::Flow(flows[before.0 as usize])) {
                Task::Flow(flow) if *end == End::Received => flow.dst,
                other => other.host(),
            };
            if known_at != tasks[index].host() {
                shortest_news = shortest_news.min(*delay);
            }
        }
        starts.iter().for_each(|(task, _)| needs[task.0 as usize - first] += 1);
        assert!(needs.iter().all(|needs| *needs > 0), "a task waits for nothing");
        nexts.sort_by_key(|(before, next)| (*before, next.task));
        TaskList { first, tasks, needs, nexts, starts, shortest_news }
    }
}

impl Default for TaskList {
    fn default() -> TaskList {
        TaskList::new(&[], Vec::new(), Vec::new(), Vec::new())
    }
}

impl Tasks for TaskList {
    fn count(&self) -> usize {
        self.tasks.len()
    }
    fn task(&self, id: FlowId) -> Task {
        self.tasks[id.0 as usize - self.first]
    }
    fn starts(&self) -> Vec<(FlowId, Time)> {
        self.starts.clone()
    }
    fn needs(&self, id: FlowId) -> usize {
        self.needs[id.0 as usize - self.first] as usize
    }
    fn each_next(&self, id: FlowId, visit: &mut dyn FnMut(Next)) {
        let from = self.nexts.partition_point(|(before, _)| *before < id);
        self.nexts[from..].iter().take_while(|(before, _)| *before == id).for_each(|(_, next)| visit(*next));
    }
    fn shortest_news(&self) -> Duration {
        self.shortest_news
    }
}

/// That a task need no longer wait for a flow or another task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct News {
    /// The task that waits.
    pub task: FlowId,
    /// What it has waited for.
    pub over: (FlowId, End),
    /// When the task begins, if it waits for nothing else.
    pub due: Time,
}

/// Something that a task needs and that has happened, and when this lets the task begin.
struct Heard {
    over: (FlowId, End),
    due: Time,
}

/// The tasks of a run, and how far those of one region are.
pub(crate) struct Waits {
    tasks: Arc<dyn Tasks>,
    /// The number of the first task.
    first: u32,
    /// The flows of all tasks up to the last one that has begun here, and those that were added one by one. One that has not begun has the start [`Time::MAX`]; so do joins.
    flows: Vec<Flow>,
    /// The joins that are over.
    joined: HashSet<u32>,
    /// What the tasks with several needs have heard of.
    heard: HashMap<FlowId, Vec<Heard>>,
    /// How long it takes until other hosts learn that a flow was given up, at least.
    lag: Duration,
}

impl Waits {
    /// No task of a run in which so many flows have a start of their own has begun yet.
    pub fn new(tasks: Arc<dyn Tasks>, first: usize, lag: Duration) -> Waits {
        Waits { tasks, first: first as u32, flows: Vec::new(), joined: HashSet::new(), heard: HashMap::new(), lag }
    }

    /// How long it takes until other hosts learn that a flow was given up, at least.
    pub fn lag(&self) -> Duration {
        self.lag
    }

    /// All tasks.
    pub fn tasks(&self) -> &Arc<dyn Tasks> {
        &self.tasks
    }

    /// The flows of all tasks up to the last one that has begun here. One that has not begun has the start [`Time::MAX`]; so do joins.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// Adds a flow in a run without tasks, and returns the payload of the event that starts it.
    pub fn add(&mut self, flow: &Flow) -> Payload {
        self.flows.push(Flow { start: Time::MAX, ..*flow });
        self.payload(flow.id)
    }

    /// The payload of the event with which a task begins. It is not the task's number, because there may be more flows than payloads.
    pub fn payload(&self, task: FlowId) -> Payload {
        task.0 - self.first
    }

    /// The inverse of [`Waits::payload`].
    pub fn id(&self, payload: Payload) -> FlowId {
        FlowId(self.first + payload)
    }

    /// The flow of a task, whose start is [`Time::MAX`] unless it has begun here.
    pub fn flow(&self, task: FlowId) -> Flow {
        let known = self.flows.get(self.payload(task) as usize);
        known.copied().unwrap_or_else(|| flow_of(task, self.tasks.task(task)))
    }

    /// Takes news. Returns when the task begins, if it waits for nothing else as far as is known here.
    pub fn hear(&mut self, News { task, over, due }: News) -> Option<Time> {
        let needs = self.tasks.needs(task);
        if needs == 1 {
            return Some(due);
        }
        if self.has_begun(task) {
            return None;
        }
        let heard = self.heard.entry(task).or_default();
        // Both ends of a flow can be the first to know that it is over.
        match heard.iter_mut().find(|known| known.over == over) {
            Some(known) => known.due = due.min(known.due),
            None => heard.push(Heard { over, due }),
        }
        (heard.len() == needs).then(|| heard.iter().map(|known| known.due).max().expect("it needs something"))
    }

    fn has_begun(&self, task: FlowId) -> bool {
        let index = self.payload(task);
        self.joined.contains(&index) || self.flows.get(index as usize).is_some_and(|flow| flow.start < Time::MAX)
    }

    /// Begins a task now. Returns what is to be done: nothing if it has begun before, which news from two ends of a flow can cause.
    pub fn begin(&mut self, payload: Payload, now: Time) -> Option<Task> {
        let id = self.id(payload);
        if self.has_begun(id) {
            return None;
        }
        self.heard.remove(&id);
        let (tasks, first) = (&self.tasks, self.first);
        let unknown = self.flows.len() as u32..=payload;
        self.flows.extend(unknown.map(|index| FlowId(first + index)).map(|id| flow_of(id, tasks.task(id))));
        let flow = &mut self.flows[payload as usize];
        if flow.src == flow.dst {
            self.joined.insert(payload);
            return Some(Task::Join(flow.src));
        }
        flow.start = now;
        Some(Task::Flow(*flow))
    }
}

/// The flow of a task. That of a join is never sent.
fn flow_of(id: FlowId, task: Task) -> Flow {
    match task {
        Task::Flow(flow) => flow,
        Task::Join(host) => Flow {
            id,
            src: host,
            dst: host,
            size: Bytes::ZERO,
            start: Time::MAX,
            deadline: None,
            tenant: 0,
            coflow: None,
            background: false,
        },
    }
}
