//! Flows that wait for others: how they are put together, and all of a run.

use std::sync::Arc;

use flowloom_core::{Duration, Flow, FlowId, Time};
use flowloom_fabric::calendar::PAYLOADS_MAX;
use flowloom_fabric::{End, Next, Task, TaskList, Tasks};

use super::{Job, Nics};
use crate::ScenarioError;

/// What a task waits for: a flow with a start of its own, or another listed task, by its place in its list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Before {
    /// A flow with a start of its own.
    Flow(u32),
    /// A task.
    Task(u32),
}

/// That a task waits for something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wait {
    /// What it waits for.
    pub before: Before,
    /// What must have happened to that.
    pub end: End,
    /// The task, by its place in the list.
    pub task: u32,
    /// How long it takes after that until the task begins.
    pub delay: Duration,
}

/// What waits in a workload, or in a part of one.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Waiting {
    /// Flows that wait, which have the start [`Time::MAX`]. Their ids mean nothing yet.
    pub listed: Vec<Flow>,
    /// What they wait for.
    pub waits: Vec<Wait>,
    /// When some of them begin at the earliest, by their place in the list.
    pub starts: Vec<(u32, Time)>,
    /// Jobs, whose flows are not listed.
    pub jobs: Vec<Job>,
}

impl Waiting {
    /// How many tasks there are.
    pub fn count(&self) -> usize {
        self.listed.len() + self.jobs.iter().map(Job::count).sum::<usize>()
    }

    /// The flows that wait. Their ids mean nothing yet.
    pub fn flows(&self) -> impl Iterator<Item = Flow> {
        self.listed.iter().copied().chain(self.jobs.iter().flat_map(Job::flows))
    }

    /// Adds a flow that waits for some things, with the time that passes after each of them. Returns its place in the list.
    pub fn push(&mut self, flow: Flow, needs: &[(Before, End, Duration)]) -> u32 {
        let task = self.listed.len() as u32;
        self.listed.push(Flow { start: Time::MAX, ..flow });
        self.waits.extend(needs.iter().map(|(before, end, delay)| Wait { before: *before, end: *end, task, delay: *delay }));
        task
    }

    /// Makes all flows those of a tenant.
    pub fn belong_to(&mut self, tenant: u16) {
        self.listed.iter_mut().for_each(|flow| flow.tenant = tenant);
        self.jobs.iter_mut().for_each(|job| job.tenant = tenant);
    }

    /// Adds what waits in a further part that begins `later`, before the flows of which there are so many others with a start of their own.
    pub fn append(&mut self, more: Waiting, flows: u32, later: Duration) {
        let tasks = self.listed.len() as u32;
        self.waits.extend(more.waits.into_iter().map(|wait| Wait {
            before: match wait.before {
                Before::Flow(place) => Before::Flow(place + flows),
                Before::Task(place) => Before::Task(place + tasks),
            },
            task: wait.task + tasks,
            ..wait
        }));
        self.starts.extend(more.starts.into_iter().map(|(task, start)| (task + tasks, start + later)));
        self.listed.extend(more.listed);
        self.jobs.extend(more.jobs.into_iter().map(|job| job.begun(later)));
    }

    /// Follows the flows with a start of their own to new places: `places` has each one's by the old one.
    pub fn renumber(&mut self, places: &[u32]) {
        for wait in &mut self.waits {
            if let Before::Flow(place) = &mut wait.before {
                *place = places[*place as usize];
            }
        }
    }

    /// Checks that a run can have so many tasks.
    ///
    /// # Errors
    /// If there are too many.
    pub fn check(&self) -> Result<(), ScenarioError> {
        let count = self.count();
        if count > PAYLOADS_MAX {
            let message = format!("{count} flows wait for others; the limit is {PAYLOADS_MAX}");
            return Err(ScenarioError::at_key("workload", message));
        }
        Ok(())
    }
}

/// The flows of a run, in the order of their ids.
#[derive(Clone)]
pub struct Flows {
    /// Those with a start of their own, sorted by (start, id); ids are indices.
    pub own: Vec<Flow>,
    /// Those that wait for others. They cost no memory before they start, but for those that a file lists.
    pub tasks: Arc<RunTasks>,
}

impl From<Vec<Flow>> for Flows {
    fn from(own: Vec<Flow>) -> Flows {
        Flows::new(own, Waiting::default(), None)
    }
}

impl Flows {
    pub(super) fn new(mut own: Vec<Flow>, waiting: Waiting, nics: Option<Nics>) -> Flows {
        let tasks = Arc::new(RunTasks::new(&own, waiting, nics));
        if let Some(nics) = &tasks.nics {
            own.iter_mut().for_each(|flow| *flow = nics.attach(*flow));
        }
        Flows { own, tasks }
    }

    /// All flows. Those that wait have the start [`Time::MAX`].
    pub fn iter(&self) -> impl Iterator<Item = Flow> + Clone {
        self.by_id().flatten()
    }

    /// For each id, its flow. Joins have ids, but are no flows.
    pub fn by_id(&self) -> impl Iterator<Item = Option<Flow>> + Clone {
        self.own.iter().copied().map(Some).chain(self.tasks.flows_by_id())
    }

    /// How many ids there are.
    pub fn ids(&self) -> usize {
        self.own.len() + self.tasks.count()
    }

    /// When the first flow starts that is no background flow; `None` if there is none.
    pub fn first_start(&self) -> Option<Time> {
        let own = self.own.iter().filter(|flow| !flow.background).map(|flow| flow.start);
        // All else that waits starts later than what waits for a time alone.
        let begins = self.tasks.starts().into_iter().filter_map(|(task, start)| match self.tasks.task(task) {
            Task::Flow(_) => Some(start),
            Task::Join(_) => {
                let mut delays = Vec::new();
                self.tasks.each_next(task, &mut |next| delays.push(next.delay));
                delays.into_iter().min().map(|delay| start + delay)
            }
        });
        own.chain(begins).min()
    }

    /// Whether some wait for others.
    pub fn wait(&self) -> bool {
        self.tasks.count() > 0
    }
}

/// All tasks of a run: first those that are listed, and then those of each job.
pub struct RunTasks {
    first: usize,
    list: TaskList,
    /// Each job, and the number of its first task.
    jobs: Vec<(u32, Job)>,
    count: usize,
    /// The list and the jobs are between hosts. This says between which of their NICs, if some have several.
    nics: Option<Nics>,
}

impl RunTasks {
    fn new(own: &[Flow], Waiting { listed, waits, starts, jobs }: Waiting, nics: Option<Nics>) -> RunTasks {
        let first = own.len();
        let id = |place: u32| FlowId(first as u32 + place);
        let tasks: Vec<Task> = (0..).zip(listed).map(|(place, flow)| Task::Flow(Flow { id: id(place), ..flow })).collect();
        let nexts = waits.into_iter().map(|Wait { before, end, task, delay }| {
            let before = match before {
                Before::Flow(place) => FlowId(place),
                Before::Task(place) => id(place),
            };
            (before, Next { task: id(task), end, delay })
        });
        let mut count = tasks.len();
        let starts = starts.into_iter().map(|(place, start)| (id(place), start));
        let list = TaskList::new(own, tasks, nexts.collect(), starts.collect());
        let place = |job: Job| {
            let begin = first + count;
            count += job.count();
            (begin as u32, job)
        };
        let jobs = jobs.into_iter().map(place).collect();
        RunTasks { first, list, jobs, count, nics }
    }

    fn flows_by_id(&self) -> impl Iterator<Item = Option<Flow>> + Clone {
        let ids = (self.first as u32..).take(self.count).map(FlowId);
        ids.map(|id| match self.task(id) {
            Task::Flow(flow) => Some(flow),
            Task::Join(_) => None,
        })
    }

    /// Each job, and the number of its first task.
    pub fn jobs(&self) -> &[(u32, Job)] {
        &self.jobs
    }

    /// The job that a task belongs to, with the number of the job's first task.
    pub fn job_of(&self, task: FlowId) -> Option<(u32, &Job)> {
        let (first, job) = self.jobs[..self.jobs.partition_point(|(first, _)| *first <= task.0)].last()?;
        Some((*first, job))
    }
}

impl Tasks for RunTasks {
    fn count(&self) -> usize {
        self.count
    }

    fn task(&self, id: FlowId) -> Task {
        let task = self.job_of(id).map_or_else(|| self.list.task(id), |(first, job)| job.task(id.0 - first));
        match task {
            Task::Flow(flow) => {
                let flow = Flow { id, ..flow };
                Task::Flow(self.nics.as_ref().map_or(flow, |nics| nics.attach(flow)))
            }
            join => join,
        }
    }

    fn starts(&self) -> Vec<(FlowId, Time)> {
        let jobs =
            self.jobs.iter().flat_map(|(first, job)| job.starts().map(move |(task, start)| (FlowId(first + task), start)));
        self.list.starts().into_iter().chain(jobs).collect()
    }

    fn needs(&self, id: FlowId) -> usize {
        self.job_of(id).map_or_else(|| self.list.needs(id), |(first, job)| job.needs(id.0 - first))
    }

    fn each_next(&self, id: FlowId, visit: &mut dyn FnMut(Next)) {
        match self.job_of(id) {
            None => self.list.each_next(id, visit),
            Some((first, job)) => job.each_next(id.0 - first, &mut |task, end, delay| {
                visit(Next { task: FlowId(first + task), end, delay });
            }),
        }
    }

    fn shortest_news(&self) -> Duration {
        self.list.shortest_news() // all news of a job stays at a host
    }
}
